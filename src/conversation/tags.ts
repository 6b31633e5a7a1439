// Tags: what a client says a call is for, such as a team, a feature or the person it is made for. They stand on the
// receipt and divide the usage; no provider sees them.

/** Values by name, in the order in which they were given. */
export type Tags = Readonly<Record<string, string>>

/** The bounds of OpenAI's `metadata`: what a client may send there fits here. */
export const mostTags = 16
const longestName = 64
const longestValue = 512

/** The name of the tag that says for whom a call is made. */
export const userTag = 'user'

/** Stands for the group of a call's key where usage is divided by tags: no tag can be called so. */
export const groupTag = ':group'

const namePattern = /^[A-Za-z0-9][A-Za-z0-9_.:@/-]*$/
// oxlint-disable-next-line no-control-regex -- these are what must not pass
const control = /[\u0000-\u001f\u007f-\u009f]/

export const noTags: Tags = {}

/** Why these cannot be the name and the value of a tag; undefined where they can. */
export function faultOfTag(name: string, value: string): string | undefined {
  if (name.length > longestName) return `the name of a tag has at most ${longestName} characters`
  if (!namePattern.test(name))
    return 'the name of a tag has letters, digits and _ . : @ / - and begins with a letter or a digit'
  if (value === '' || value.length > longestValue)
    return `the value of a tag has 1 to ${longestValue} characters`
  if (control.test(value) || !value.isWellFormed()) return 'the value of a tag has no control characters'
  return undefined
}

/** Tags as they are stored, and as they travel with a call: a JSON object of texts. */
export function tagsText(tags: Tags): string {
  return JSON.stringify(tags)
}

/** The tags in such a text; none in `null`. */
export function tagsOf(text: string | null): Tags {
  return text === null ? noTags : (JSON.parse(text) as Tags)
}

/**
 * Reads the header `x-weir-tags`: `team=search,feature=chat`, values percent-encoded where they have a comma, a percent
 * sign or anything beyond ASCII. Returns the tags, or in words what is wrong with it.
 */
export function readTagsHeader(written: string): Tags | string {
  const tags: Record<string, string> = Object.create(null) as Record<string, string>
  let count = 0
  for (const pair of written.split(',')) {
    const text = pair.trim()
    if (text === '') continue
    const at = text.indexOf('=')
    if (at < 0) return 'a tag is written name=value'
    if (++count > mostTags) return `a call has at most ${mostTags} tags`
    const name = text.slice(0, at).trimEnd()
    const value = decode(text.slice(at + 1).trimStart())
    if (value === undefined) return 'a value is percent-encoded UTF-8: a percent sign itself is %25'
    const fault = faultOfTag(name, value)
    if (fault !== undefined) return fault
    if (name in tags) return `the tag ${name} is there twice`
    tags[name] = value
  }
  return { ...tags }
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
