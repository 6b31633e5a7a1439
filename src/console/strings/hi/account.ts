// Hindi: settings, webhooks, and MCP servers.

export const account: Readonly<Record<string, string>> = {
  verified: 'सत्यापित',
  'not verified': 'सत्यापित नहीं',
  'Notify an address of yours when something happens to the account':
    'खाते में कुछ होने पर अपने किसी पते को सूचना भेजें',
  'Current password': 'वर्तमान पासवर्ड',
  'The password is changed. All other sessions are ended.':
    'पासवर्ड बदल गया है। बाकी सभी सत्र समाप्त कर दिए गए हैं।',
  'Change the password': 'पासवर्ड बदलें',
  'Set a password': 'पासवर्ड सेट करें',
  Passkeys: 'पासकी',
  'Add a passkey': 'पासकी जोड़ें',
  'None. A passkey signs you in by fingerprint, face or a security key.':
    'कोई नहीं। पासकी से आप फ़िंगरप्रिंट, चेहरे या सुरक्षा कुंजी से साइन इन कर सकते हैं।',
  'made {time}': '{time} बनाई गई',
  'used {time}': '{time} उपयोग हुई',
  'never used': 'कभी उपयोग नहीं हुई',
  Remove: 'हटाएँ',
  Passkey: 'पासकी',
  Sessions: 'सत्र',
  'this one': 'यह वाला',
  'begun {time}': '{time} शुरू हुआ',
  'seen {time}': '{time} देखा गया',
  'End the session begun at {time}': '{time} पर शुरू हुआ सत्र समाप्त करें',
  End: 'समाप्त करें',
  'made on the command line': 'कमांड लाइन पर बनाया गया',
  'What acts for the account': 'खाते की ओर से क्या-क्या काम करता है',
  'A new password ends sessions and unused links, and nothing else. Remove what is not yours.':
    'नया पासवर्ड केवल सत्र और अप्रयुक्त लिंक समाप्त करता है। जो आपका नहीं है, उसे हटाएँ।',
  'Unused sign-in links': 'अप्रयुक्त साइन-इन लिंक',
  'MCP servers': 'MCP सर्वर',
  Language: 'भाषा',
  'Delete the account': 'खाता हटाएँ',
  'Its keys are revoked and its sessions ended. What is left of its credit is lost.':
    'इसकी कुंजियाँ रद्द होंगी और सत्र समाप्त होंगे। बचा हुआ क्रेडिट वापस नहीं मिलेगा।',
  'Type {email} to confirm': 'पुष्टि के लिए {email} टाइप करें',
  'Single sign-on': 'सिंगल साइन-ऑन',
  'Link {label}': '{label} लिंक करें',
  'Not linked. Once it is, you can sign in to this account with {label}.':
    'लिंक नहीं है। लिंक होने पर आप {label} से इस खाते में साइन इन कर सकेंगे।',
  'linked {time}': '{time} लिंक किया गया',
  'Unlink {name}': '{name} को अनलिंक करें',
  Unlink: 'अनलिंक करें',
  'This is the only way to sign in to the account. Set a password first.':
    'इस खाते में साइन इन करने का यही एक तरीका है। पहले पासवर्ड सेट करें।',
  'The single sign-on failed: {code}.': 'सिंगल साइन-ऑन विफल हुआ: {code}।',
  'This identity is linked to another account. Unlink it there first.':
    'यह पहचान किसी दूसरे खाते से लिंक है। पहले वहाँ से अनलिंक करें।',
  'Linking took too long, or was begun in another browser. Try again.':
    'लिंक करने में बहुत समय लगा, या यह किसी दूसरे ब्राउज़र में शुरू हुआ था। फिर कोशिश करें।',
  'The single sign-on cannot be reached. Try again later.':
    'सिंगल साइन-ऑन तक नहीं पहुँचा जा सका। बाद में फिर कोशिश करें।',
  'The single sign-on did not confirm who you are, so nothing was linked.':
    'सिंगल साइन-ऑन ने आपकी पहचान की पुष्टि नहीं की, इसलिए कुछ लिंक नहीं हुआ।',

  Webhooks: 'वेबहुक',
  'Signed messages to an address of yours. One that is not accepted is sent again, for days.':
    'आपके किसी पते पर हस्ताक्षरित संदेश। जो स्वीकार न हो, वह कई दिनों तक फिर भेजा जाता है।',
  'Add a webhook': 'वेबहुक जोड़ें',
  'There are no webhooks.': 'कोई वेबहुक नहीं है।',
  'A program of yours is notified, for example when credit is low or a key reaches its limit.':
    'आपके प्रोग्राम को सूचना मिलती है, जैसे जब क्रेडिट कम हो या कोई कुंजी अपनी सीमा तक पहुँचे।',
  'Send a test': 'टेस्ट भेजें',
  'Accepted: {status} after {time}.': 'स्वीकार हुआ: {status}, {time} बाद।',
  'Not accepted: {reason}.': 'स्वीकार नहीं हुआ: {reason}।',
  'Nothing was sent yet.': 'अभी तक कुछ नहीं भेजा गया।',
  Messages: 'संदेश',
  'tried next': 'अगला प्रयास',
  'Not tried yet.': 'अभी तक प्रयास नहीं हुआ।',
  'The secret of the webhook': 'वेबहुक का सीक्रेट',
  'This is the only time that it is shown. Messages are signed with it as Standard Webhooks has it.':
    'यह केवल अभी दिखाया जा रहा है। संदेश इससे Standard Webhooks के अनुसार हस्ताक्षरित होते हैं।',
  Secret: 'सीक्रेट',
  'I have stored the secret': 'मैंने सीक्रेट सहेज लिया है',
  'Add it': 'जोड़ें',
  Address: 'पता',
  'Notify it when': 'कब सूचना भेजें',
  'The purchased credit is low': 'ख़रीदा हुआ क्रेडिट कम है',
  'A top-up expires soon': 'कोई टॉप-अप जल्द समाप्त होने वाला है',
  'A top-up was credited': 'टॉप-अप का क्रेडिट मिला',
  'A key was created': 'कुंजी बनाई गई',
  'A key has reached its limit': 'कुंजी अपनी सीमा तक पहुँच गई',
  waits: 'इंतज़ार में',
  delivered: 'पहुँच गया',
  'given up': 'प्रयास छोड़ दिया गया',

  'Replace it': 'बदल दें',
  'Add it and sign in': 'जोड़ें और साइन इन करें',
  'Add a server': 'सर्वर जोड़ें',
  'How calls name it: letters, digits, underscores and hyphens.':
    'कॉल में इसका नाम: अंग्रेज़ी अक्षर, अंक, अंडरस्कोर और हाइफ़न।',
  Authentication: 'प्रमाणीकरण',
  nothing: 'कुछ नहीं',
  'a token': 'एक टोकन',
  'signing in with the browser': 'ब्राउज़र से साइन इन',
  Token: 'टोकन',
  'Kept encrypted, and never shown again.': 'एन्क्रिप्ट करके रखा जाता है, और फिर कभी नहीं दिखाया जाता।',
  'More headers': 'और हेडर',
  'One per line, such as X-Team: a': 'हर पंक्ति में एक, जैसे X-Team: a',
  'A server with this name exists. It is replaced, with its token and headers.':
    'इस नाम का सर्वर पहले से है। वह अपने टोकन और हेडर के साथ बदल दिया जाएगा।',
  'Use a client that I registered there': 'वहाँ मेरे पंजीकृत क्लाइंट का उपयोग करें',
  'Register one there with this address to come back to:':
    'वहाँ वापसी के इस पते के साथ एक क्लाइंट पंजीकृत करें:',
  'Client id': 'क्लाइंट ID',
  'Client secret': 'क्लाइंट सीक्रेट',
  'MCP servers whose tools models may use, in the chat and in calls that name them.':
    'MCP सर्वर जिनके औज़ार मॉडल चैट में और उनका नाम लेने वाली कॉल में उपयोग कर सकते हैं।',
  'There are no servers.': 'कोई सर्वर नहीं है।',
  'Register a server once, with its token. Calls then need only its name.':
    'सर्वर को उसके टोकन के साथ एक बार पंजीकृत करें। फिर कॉल में केवल उसका नाम चाहिए।',
  'In a call': 'कॉल में',
  'A tool of a call': 'कॉल का एक औज़ार',
  'The server is authorised. Its tools can be used now.':
    'सर्वर को अनुमति मिल गई है। अब इसके औज़ार उपयोग किए जा सकते हैं।',
  'The server was not authorised. Nothing has changed; try it again.':
    'सर्वर को अनुमति नहीं मिली। कुछ नहीं बदला है; फिर कोशिश करें।',
  'signed in': 'साइन इन है',
  'Is sent': 'भेजा जाता है',
  Changed: 'बदला गया',
  Test: 'जाँचें',
  'Sign in again': 'फिर से साइन इन करें',
  'a token of the sign-in': 'साइन इन का टोकन',
  'It answers. Tools: {count}': 'यह जवाब दे रहा है। औज़ार: {count}',
  'It cannot be used as it should: {reason}': 'इसका ठीक से उपयोग नहीं हो सकता: {reason}',
  'Its token and headers are deleted. Calls that name it are refused from then on.':
    'इसके टोकन और हेडर हटा दिए जाएँगे। इसके बाद इसका नाम लेने वाली कॉल अस्वीकार होंगी।',
  'Remove the server': 'सर्वर हटाएँ',
}
