// A nested value as a flat list of `path → text`, to compare two of them field by field.

/**
 * Every leaf of a value under its dotted path; lists of plain values count as one leaf. A bigint is a rate, and
 * `money` says how to write it. Undefined leaves are left out.
 */
export function flattened(value: unknown, money: (amount: bigint) => string): Map<string, string> {
  const leaves = new Map<string, string>()
  const visit = (path: string, node: unknown) => {
    if (node === undefined) return
    if (typeof node === 'bigint') leaves.set(path, money(node))
    else if (typeof node !== 'object' || node === null) leaves.set(path, String(node))
    else if (Array.isArray(node) && node.every((item) => typeof item !== 'object'))
      leaves.set(path, node.join(', '))
    else for (const [key, child] of Object.entries(node)) visit(path === '' ? key : `${path}.${key}`, child)
  }
  visit('', value)
  return leaves
}
