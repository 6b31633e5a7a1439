// Hindi: the chat's models, settings and files, and the frame of the console.

export const chatting: Readonly<Record<string, string>> = {
  Favourites: 'पसंदीदा',
  'Used last': 'हाल में उपयोग किए गए',
  favourite: 'पसंदीदा',
  'Make a favourite: {model}': 'पसंदीदा बनाएँ: {model}',
  Theme: 'रंग-रूप',
  System: 'सिस्टम जैसा',
  Light: 'हल्का',
  Dark: 'गहरा',
  'Theme: {name}': 'रंग-रूप: {name}',
  'Language: {name}': 'भाषा: {name}',
  'Fold the menu': 'मेनू समेटें',
  'Unfold the menu': 'मेनू फैलाएँ',
  'Fold the conversations': 'बातचीत की सूची समेटें',
  'Unfold the conversations': 'बातचीत की सूची फैलाएँ',
  'Find a page, a conversation, a model or an action': 'पेज, बातचीत, मॉडल या क्रिया खोजें',
  'Command palette': 'कमांड पैलेट',
  'Type a name': 'नाम टाइप करें',
  'Nothing has this name.': 'इस नाम का कुछ नहीं है।',
  Pages: 'पेज',
  'Not a favourite any more: {model}': 'पसंदीदा से हटाएँ: {model}',
}
