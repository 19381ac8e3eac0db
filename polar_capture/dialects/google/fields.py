"""Every request field of generateContent and what becomes of it. Snake-case spellings count as the same field."""

from polar_capture.dialects.fidelity import Fields, Treatment

_MAPPED = Treatment.MAPPED
_KEPT = Treatment.KEPT
_EMULATED = Treatment.EMULATED
_IGNORED = Treatment.IGNORED
_UNMAPPED = Treatment.UNMAPPED

REQUEST: Fields = {
    "contents": _MAPPED,
    "systemInstruction": _MAPPED,
    "tools": _MAPPED,
    "toolConfig": _MAPPED,
    "generationConfig": _MAPPED,
    "cachedContent": Treatment.REFUSED,  # the cached text is with Google: an answer without it would be wrong
    "model": _KEPT,  # the path's name counts, or Code Assist's
    "sessionId": _KEPT,  # Code Assist: a session hint
    "safetySettings": _IGNORED,
    "labels": _IGNORED,
    "serviceTier": _IGNORED,
    "store": _IGNORED,
}

CODE_ASSIST: Fields = {
    "model": _KEPT,
    "request": _MAPPED,
    "userPromptId": _KEPT,  # a user-turn hint
    "project": _IGNORED,
    "enabledCreditTypes": _IGNORED,
}

GENERATION_CONFIG: Fields = {
    "temperature": _MAPPED,
    "topP": _MAPPED,
    "topK": _MAPPED,
    "candidateCount": _MAPPED,
    "maxOutputTokens": _MAPPED,
    "stopSequences": _MAPPED,
    "seed": _MAPPED,
    "presencePenalty": _MAPPED,
    "frequencyPenalty": _MAPPED,
    "responseMimeType": _MAPPED,
    "responseSchema": _MAPPED,
    "responseJsonSchema": _MAPPED,
    "responseFormat": _MAPPED,  # its text entry; others are unmapped
    "responseLogprobs": _EMULATED,  # always asked of the engine, shown only where the client asked
    "logprobs": _EMULATED,  # cut from what the engine gives
    "thinkingConfig": _MAPPED,  # a budget above 0 is unmapped
    "responseModalities": _UNMAPPED,  # ["TEXT"] is no news and not listed
    "mediaResolution": _UNMAPPED,
    "speechConfig": _UNMAPPED,
    "imageConfig": _UNMAPPED,
    "audioTimestamp": _UNMAPPED,
    "audioTranscriptionConfig": _UNMAPPED,
    "translationConfig": _UNMAPPED,
    "enableAffectiveDialog": _UNMAPPED,
    "enableEnhancedCivicAnswers": _IGNORED,
    "routingConfig": _IGNORED,
    "modelSelectionConfig": _IGNORED,
}

THINKING: Fields = {
    "includeThoughts": _KEPT,
    "thinkingBudget": _MAPPED,  # 0 only; others are unmapped
    "thinkingLevel": _MAPPED,
}

CONTENT: Fields = {"role": _MAPPED, "parts": _MAPPED}

FUNCTION_CALL: Fields = {
    "id": _KEPT,  # may be one of ours
    "name": _MAPPED,
    "args": _MAPPED,
    "partialArgs": _UNMAPPED,
    "willContinue": _UNMAPPED,
}

PART: Fields = {
    "text": _MAPPED,
    "thought": _MAPPED,
    "thoughtSignature": _KEPT,  # may be one of ours
    "functionCall": _MAPPED,
    "functionResponse": _MAPPED,
    "inlineData": _MAPPED,  # images, audio, video, text; other types are said to be left out
    "fileData": _UNMAPPED,
    "executableCode": _UNMAPPED,
    "codeExecutionResult": _UNMAPPED,
    "videoMetadata": _UNMAPPED,
    "mediaResolution": _UNMAPPED,
    "toolCall": _UNMAPPED,  # of Google's own tools
    "toolResponse": _UNMAPPED,
    "audioTranscription": _UNMAPPED,
    "partMetadata": _IGNORED,
    "mediaProcessing": _IGNORED,
    "speechMetadata": _IGNORED,
    "documentMetadata": _IGNORED,
    "spreadsheetMetadata": _IGNORED,
    "audioMetadata": _IGNORED,
}

FUNCTION_RESPONSE: Fields = {
    "id": _MAPPED,
    "name": _MAPPED,
    "response": _MAPPED,
    "parts": _MAPPED,
    "willContinue": _UNMAPPED,
    "scheduling": _UNMAPPED,
}

FUNCTION_DECLARATION: Fields = {
    "name": _MAPPED,
    "description": _MAPPED,
    "parameters": _MAPPED,
    "parametersJsonSchema": _MAPPED,
    "response": _IGNORED,  # describes the client's side
    "responseJsonSchema": _IGNORED,
    "behavior": _UNMAPPED,
}
