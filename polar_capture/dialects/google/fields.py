"""Every request field of generateContent and what becomes of it. Snake-case spellings count as the same field."""

from polar_capture.dialects.fidelity import EMULATED, IGNORED, KEPT, MAPPED, REFUSED, UNMAPPED, Fields

REQUEST: Fields = {
    "contents": MAPPED,
    "systemInstruction": MAPPED,
    "tools": MAPPED,
    "toolConfig": MAPPED,
    "generationConfig": MAPPED,
    "cachedContent": REFUSED,  # the cached text is with Google: an answer without it would be wrong
    "model": KEPT,  # the path's name counts, or Code Assist's
    "sessionId": KEPT,  # Code Assist: a session hint
    "safetySettings": IGNORED,
    "labels": IGNORED,
    "serviceTier": IGNORED,
    "store": IGNORED,
}

CODE_ASSIST: Fields = {
    "model": KEPT,
    "request": MAPPED,
    "userPromptId": KEPT,  # a user-turn hint
    "project": IGNORED,
    "enabledCreditTypes": IGNORED,
}

GENERATION_CONFIG: Fields = {
    "temperature": MAPPED,
    "topP": MAPPED,
    "topK": MAPPED,
    "candidateCount": MAPPED,
    "maxOutputTokens": MAPPED,
    "stopSequences": MAPPED,
    "seed": MAPPED,
    "presencePenalty": MAPPED,
    "frequencyPenalty": MAPPED,
    "responseMimeType": MAPPED,
    "responseSchema": MAPPED,
    "responseJsonSchema": MAPPED,
    "responseFormat": MAPPED,  # its text entry; others are unmapped
    "responseLogprobs": EMULATED,  # always asked of the engine, shown only where the client asked
    "logprobs": EMULATED,  # cut from what the engine gives
    "thinkingConfig": MAPPED,  # a budget above 0 is unmapped
    "responseModalities": UNMAPPED,  # ["TEXT"] is no news and not listed
    "mediaResolution": UNMAPPED,
    "speechConfig": UNMAPPED,
    "imageConfig": UNMAPPED,
    "audioTimestamp": UNMAPPED,
    "audioTranscriptionConfig": UNMAPPED,
    "translationConfig": UNMAPPED,
    "enableAffectiveDialog": UNMAPPED,
    "enableEnhancedCivicAnswers": IGNORED,
    "routingConfig": IGNORED,
    "modelSelectionConfig": IGNORED,
}

THINKING: Fields = {
    "includeThoughts": KEPT,
    "thinkingBudget": MAPPED,  # 0 only; others are unmapped
    "thinkingLevel": MAPPED,
}

CONTENT: Fields = {"role": MAPPED, "parts": MAPPED}

FUNCTION_CALL: Fields = {
    "id": KEPT,  # may be one of ours
    "name": MAPPED,
    "args": MAPPED,
    "partialArgs": UNMAPPED,
    "willContinue": UNMAPPED,
}

PART: Fields = {
    "text": MAPPED,
    "thought": MAPPED,
    "thoughtSignature": KEPT,  # may be one of ours
    "functionCall": MAPPED,
    "functionResponse": MAPPED,
    "inlineData": MAPPED,  # images, audio, video, text; other types are said to be left out
    "fileData": UNMAPPED,
    "executableCode": UNMAPPED,
    "codeExecutionResult": UNMAPPED,
    "videoMetadata": UNMAPPED,
    "mediaResolution": UNMAPPED,
    "toolCall": UNMAPPED,  # of Google's own tools
    "toolResponse": UNMAPPED,
    "audioTranscription": UNMAPPED,
    "partMetadata": IGNORED,
    "mediaProcessing": IGNORED,
    "speechMetadata": IGNORED,
    "documentMetadata": IGNORED,
    "spreadsheetMetadata": IGNORED,
    "audioMetadata": IGNORED,
}

FUNCTION_RESPONSE: Fields = {
    "id": MAPPED,
    "name": MAPPED,
    "response": MAPPED,
    "parts": MAPPED,
    "willContinue": UNMAPPED,
    "scheduling": UNMAPPED,
}

FUNCTION_DECLARATION: Fields = {
    "name": MAPPED,
    "description": MAPPED,
    "parameters": MAPPED,
    "parametersJsonSchema": MAPPED,
    "response": IGNORED,  # describes the client's side
    "responseJsonSchema": IGNORED,
    "behavior": UNMAPPED,
}
