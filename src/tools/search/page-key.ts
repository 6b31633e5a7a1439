// What two addresses of one page have in common.

/** Equal for addresses that differ in scheme, `www.`, fragment, marks of campaigns or a slash at the end. */
export function pageKey(address: URL): string {
  const url = new URL(address)
  url.hash = ''
  url.protocol = 'https:'
  const marks = [...url.searchParams.keys()].filter((name) => /^(utm_\w+|fbclid|gclid|msclkid)$/.test(name))
  for (const name of marks) url.searchParams.delete(name)
  return url.href.replace(/^https:\/\/www\./, 'https://').replace(/\/$/, '')
}
