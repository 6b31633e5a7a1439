// The ids of requests for approval. Each names the tool as it was listed, and the call that asked.

/**
 * The id under which a call of the tool with this fingerprint is asked about, `number` in its answer. Providers get it
 * as the id of the tool call, which may have 64 characters.
 */
export function approvalId(fingerprint: string, requestId: string, number: number): string {
  const call = Buffer.from(requestId.replace(/^req_/, ''), 'hex').toString('base64url')
  return `${approvalPrefix(fingerprint)}${call}_${number}`
}

/** What the ids of all approvals of a tool begin with. */
export function approvalPrefix(fingerprint: string): string {
  return `mcpr_${fingerprint}`
}

/** The call in whose answer this approval was asked for; undefined for an id that does not say it. */
export function requestOfApproval(id: string): string | undefined {
  const [, call] = /^mcpr_[0-9a-f]{32}([\w-]{22})_\d+$/.exec(id) ?? []
  return call === undefined ? undefined : `req_${Buffer.from(call, 'base64url').toString('hex')}`
}
