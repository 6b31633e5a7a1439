// Hindi: what is translated of the other pages so far.

export const rest: Readonly<Record<string, string>> = {
  'Current password': 'वर्तमान पासवर्ड',
  Language: 'भाषा',
  Passkeys: 'पासकी',
  Sessions: 'सत्र',
}
