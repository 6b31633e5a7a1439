// E-mail addresses: which texts are one, and which of them reach the same person.

/** Whether a text can be an e-mail address; whether it is one, only a mail can tell. */
export function isAddress(text: string): boolean {
  return /^[^\s@\p{Cc}]{1,64}@[^\s@\p{Cc}]{1,190}$/u.test(text)
}

/** Addresses that differ in nothing but case and blanks are the same account. */
export function accountAddress(text: string): string {
  return text.trim().toLowerCase()
}

const gmail = new Set(['gmail.com', 'googlemail.com'])

/**
 * Stands for the person behind an address, where credit is given once: a SHA-256, hex, of the address without its
 * `+tag`, and for Gmail without its dots.
 */
export function personOf(email: string): string {
  const address = accountAddress(email).normalize('NFKC')
  const at = address.lastIndexOf('@')
  const domain = address.slice(at + 1)
  const name = address.slice(0, at).replace(/(.)\+.*$/s, '$1')
  const plain = gmail.has(domain) ? `${name.replaceAll('.', '')}@gmail.com` : `${name}@${domain}`
  return Bun.SHA256.hash(plain, 'hex')
}
