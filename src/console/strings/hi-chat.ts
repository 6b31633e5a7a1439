// Hindi: the chat's models, settings and files, and the frame of the console.

export const chatting: Readonly<Record<string, string>> = {
  Favourites: 'पसंदीदा',
  'Used last': 'हाल में उपयोग किए गए',
  favourite: 'पसंदीदा',
  'Make a favourite: {model}': 'पसंदीदा बनाएँ: {model}',
  'Not a favourite any more: {model}': 'पसंदीदा से हटाएँ: {model}',
}
