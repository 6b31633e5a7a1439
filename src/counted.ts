/** A count with its noun, in English: `1 model`, `2 models`; `entry` needs its plural. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
