// The findings of `weir doctor` and its probes, one line each.

/** `bad` makes the command fail; `warn` needs attention; `info` is a fact. */
export interface Finding {
  readonly check: string
  readonly state: 'ok' | 'info' | 'warn' | 'bad'
  readonly detail: string
}
