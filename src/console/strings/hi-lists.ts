// Hindi: lists of operators, overviews and charts.

export const lists: Readonly<Record<string, string>> = {
  'every state': 'हर स्थिति',
  'This month': 'इस महीने',
  'Last call': 'पिछली कॉल',
  'last call {time}': 'पिछली कॉल {time}',
  '{amount} this month': 'इस महीने {amount}',
}
