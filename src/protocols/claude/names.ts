// Fixed words by which answers and requests of Claude are recognised again, whichever protocol carries them.

/** The format name of reasoning details that only this protocol can take back. */
export const reasoningFormat = 'anthropic-claude-v1'

/** The id that marks a `reasoning.summary` detail as a compaction block, to be rebuilt as one. */
export const compactionId = 'compaction'

/**
 * The tool that carries an answer of a given JSON schema on models without native structured output. The parser
 * knows only the answer, not the request: a call of a tool with this name is the answer's text.
 */
export const answerTool = 'weir_structured_answer'

/** The user message added after an assistant message that the model may not continue. */
export const continuation = 'Continue.'
