// E-mail addresses: syntax and normalisation.

/** Whether a text looks like an e-mail address; only a mail can prove that it is one. */
export function isAddress(text: string): boolean {
  return /^[^\s@\p{Cc}]{1,64}@[^\s@\p{Cc}]{1,190}$/u.test(text)
}

/** Normalises an address: those that differ only in case and blanks are the same account. */
export function accountAddress(text: string): string {
  return text.trim().toLowerCase()
}

const gmail = new Set(['gmail.com', 'googlemail.com'])

/**
 * Identifies the person behind an address, for credit that is given once: the SHA-256, hex, of the address without its
 * `+tag`, and for Gmail without dots.
 */
export function personOf(email: string): string {
  const address = accountAddress(email).normalize('NFKC')
  const at = address.lastIndexOf('@')
  const domain = address.slice(at + 1)
  const name = address.slice(0, at).replace(/(.)\+.*$/s, '$1')
  const plain = gmail.has(domain) ? `${name.replaceAll('.', '')}@gmail.com` : `${name}@${domain}`
  return Bun.SHA256.hash(plain, 'hex')
}
