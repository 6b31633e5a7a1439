// A configuration while it is being put together: the values so far, where each came from, what is wrong.

/** Where a value came from. */
export type Origin =
  | { readonly kind: 'flag'; readonly name: string }
  | { readonly kind: 'environment'; readonly name: string }
  | { readonly kind: 'file'; readonly file: string; readonly line: number | undefined }
  /** Changed by the API or in the console, and kept in the database. */
  | { readonly kind: 'console' }
  | { readonly kind: 'default' }

/** One fault. `path` is a setting's path, or the name of the variable or file. */
export interface ConfigFault {
  readonly path: string
  readonly problem: string
  readonly nearest: string | undefined
  readonly origin: Origin | undefined
}

/** Something odd that does not keep the gateway from starting. */
export interface ConfigWarning {
  readonly name: string
  readonly problem: string
}

export type Path = readonly (string | number)[]

export type Tree = { [key: string]: unknown }

export class Draft {
  readonly tree: Tree = {}
  readonly faults: ConfigFault[] = []
  readonly warnings: ConfigWarning[] = []
  readonly #origins = new Map<string, Origin>()

  /** Sets a value. A parent that is not an object is left alone: the schema reports it. */
  set(path: Path, value: unknown, origin: Origin): void {
    let at: Tree = this.tree
    for (const part of path.slice(0, -1)) {
      at[part] ??= {}
      const below = at[part]
      if (!isTree(below)) return
      at = below
    }
    at[path.at(-1)!] = value
    this.mark(path, origin)
  }

  get(path: Path): unknown {
    let at: unknown = this.tree
    for (const part of path) at = isTree(at) || Array.isArray(at) ? Reflect.get(at, part) : undefined
    return at
  }

  mark(path: Path, origin: Origin): void {
    this.#origins.set(printPath(path), origin)
  }

  /** Takes back that a value came from anywhere: it turned out not to be given. */
  unmark(path: Path): void {
    this.#origins.delete(printPath(path))
  }

  /** The origin of the value at exactly this path; the default if it was not set. */
  valueOrigin(path: Path): Origin {
    return this.#origins.get(printPath(path)) ?? { kind: 'default' }
  }

  /** The place to look for a fault: the origin of the value, or of the nearest thing around it that has one. */
  #placeOf(path: Path): Origin | undefined {
    for (let length = path.length; length > 0; length--) {
      const origin = this.#origins.get(printPath(path.slice(0, length)))
      if (origin) return origin
    }
    return undefined
  }

  fault(path: Path, problem: string, nearest?: string): void {
    this.faults.push({ path: printPath(path), problem, nearest, origin: this.#placeOf(path) })
  }

  /** The same for a value that is not taken over. */
  faultOf(origin: Origin, path: Path, problem: string): void {
    this.faults.push({ path: printPath(path), problem, nearest: undefined, origin })
  }

  warn(name: string, problem: string): void {
    this.warnings.push({ name, problem })
  }
}

export function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** `models[0].price.input`: a path as people write it. */
export function printPath(path: Path): string {
  return path
    .map((part, at) => (typeof part === 'number' ? `[${part}]` : at === 0 ? part : `.${part}`))
    .join('')
}

/** `--port`, `WEIR_PORT`, `weir.yaml:3`, `default`. */
export function printedOrigin(origin: Origin): string {
  switch (origin.kind) {
    case 'flag':
    case 'environment':
      return origin.name
    case 'file':
      return origin.line === undefined ? origin.file : `${origin.file}:${origin.line}`
    case 'console':
    case 'default':
      return origin.kind
  }
}

// Settings with a former name. The configuration is a contract: existing files continue to work.

interface Renamed {
  readonly from: Path
  readonly to: Path
}

const renamed: readonly Renamed[] = [{ from: ['responses', 'retention'], to: ['responses', 'retention_ms'] }]

/** Moves values to the names that settings have now, with a warning; a fault where both names are given. */
export function takeOldNames(draft: Draft): void {
  for (const { from, to } of renamed) {
    const value = draft.get(from)
    if (value === undefined) continue
    const section = draft.get(from.slice(0, -1))
    if (!isTree(section)) continue
    const origin = draft.valueOrigin(from)
    delete section[String(from.at(-1))]
    draft.unmark(from)
    if (draft.get(to) === undefined) {
      draft.set(to, value, origin)
      draft.warn(printPath(from), `is called ${printPath(to)} now; the old name still works`)
    } else draft.fault(to, `is given under its old name, ${printPath(from)}, too: keep one of them`)
  }
}
