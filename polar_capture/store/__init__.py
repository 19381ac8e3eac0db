"""The store: typed models, the durable writer, the codec of packed columns."""
