// Fixed names that identify parts of Claude's requests and answers in every protocol.

/** The format of reasoning details that only this protocol accepts back. */
export const reasoningFormat = 'anthropic-claude-v1'

/** The id that marks a `reasoning.summary` detail as a compaction block. */
export const compactionId = 'compaction'

/**
 * The tool that carries a structured answer on models without native support. The parser does not know the request: a
 * call of a tool with this name is the answer's text.
 */
export const answerTool = 'weir_structured_answer'

/** The user message added after an assistant message that the model may not continue. */
export const continuation = 'Continue.'
