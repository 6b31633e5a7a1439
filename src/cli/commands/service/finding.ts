// What `weir doctor` and `weir probe` say, line by line.

/** `bad` makes the command fail; `warn` is worth a look; `info` is a fact. */
export interface Finding {
  readonly check: string
  readonly state: 'ok' | 'info' | 'warn' | 'bad'
  readonly detail: string
}
