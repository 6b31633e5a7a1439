// The process's environment, in a file of its own: it is needed before anything else is loaded.

/** For everybody who must be given one; nobody else reads it. */
export function readEnvironment(): Readonly<Record<string, string | undefined>> {
  return process.env
}
