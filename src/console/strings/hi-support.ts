// Hindi: what operators look up for a customer.

export const support: Readonly<Record<string, string>> = {
  'Does the key work?': 'क्या कुंजी काम करती है?',
  'Nothing refuses all of its calls now.': 'अभी ऐसा कुछ नहीं जो इसकी सभी कॉल को अस्वीकार करे।',
  'Its calls are refused: {codes}.': 'इसकी कॉल अस्वीकार होती हैं: {codes}।',
  'What a call with it meets': 'इससे की गई कॉल पर लागू नियम',
  'It begins anew on {time}.': 'यह {time} को फिर से शुरू होता है।',
  'The key was revoked by {who}, {time}.': 'कुंजी रद्द की गई: {who}, {time}।',
  'The key is paused since {time}, by {who}.': 'कुंजी {time} से रोकी गई है: {who}।',
  'The key expired, {time}.': 'कुंजी की अवधि समाप्त हो गई, {time}।',
  'The key is active.': 'कुंजी सक्रिय है।',
  'The key is active until {time}.': 'कुंजी {time} तक सक्रिय है।',
  'its owner': 'इसके स्वामी द्वारा',
  'an operator': 'संचालक द्वारा',
  'a report that it has leaked': 'इसके लीक होने की सूचना के कारण',
  'its use from many networks': 'कई नेटवर्क से उपयोग के कारण',
  'The account is active.': 'खाता सक्रिय है।',
  'The key is of the group {group}, which is gone or which its owner has left.':
    'कुंजी समूह {group} की है, जो अब नहीं है या जिसे इसके स्वामी ने छोड़ दिया है।',
  'Budget of the group {group}: {spent} of {limit} spent, {reserved} reserved.':
    'समूह {group} का बजट: {limit} में से {spent} खर्च, {reserved} आरक्षित।',
  'Budget of this member of {group}: {spent} of {limit} spent, {reserved} reserved.':
    '{group} के इस सदस्य का बजट: {limit} में से {spent} खर्च, {reserved} आरक्षित।',
  'Limit of the key: {spent} of {limit} spent, {reserved} reserved.':
    'कुंजी की सीमा: {limit} में से {spent} खर्च, {reserved} आरक्षित।',
  'Purchased credit of the account: {limit}, of which {reserved} is reserved.':
    'खाते का ख़रीदा हुआ क्रेडिट: {limit}, जिसमें से {reserved} आरक्षित है।',
  'Credit of the group {group}: {limit}, of which {reserved} is reserved.':
    'समूह {group} का क्रेडिट: {limit}, जिसमें से {reserved} आरक्षित है।',
  'It may use these models alone: {names}.': 'यह केवल इन मॉडलों का उपयोग कर सकती है: {names}।',
  'In the group {group} these models alone: {names}.': 'समूह {group} में केवल ये मॉडल: {names}।',
  'It works from these networks alone: {names}.': 'यह केवल इन नेटवर्क से काम करती है: {names}।',
  'No call with it was refused or failed in the last week.':
    'पिछले सप्ताह में इससे की गई कोई कॉल न अस्वीकार हुई, न विफल।',
  'Refused or failed in the last week': 'पिछले सप्ताह में अस्वीकार या विफल',
  'Last model': 'पिछला मॉडल',
  Last: 'पिछली बार',
  'Calls about {time}': '{time} के आसपास की कॉल',
  'Charged twice?': 'दो बार शुल्क?',
  'Beside each other': 'एक साथ तुलना',
  'No call is called {ids}.': '{ids} नाम की कोई कॉल नहीं है।',
  'No other call of its key looks like it: same model and length of the prompt, within ten minutes.':
    'इसकी कुंजी की कोई और कॉल इस जैसी नहीं है: वही मॉडल और प्रॉम्प्ट की वही लंबाई, दस मिनट के भीतर।',
  'They differ in: {names}.': 'इनमें अंतर है: {names}।',
  'Calls beside each other': 'एक साथ रखी गई कॉल',
  Began: 'शुरू हुई',
  'Idempotency-Key': 'Idempotency-Key',
  Charged: 'शुल्क',
  'The first {shown} of {all}.': '{all} में से पहली {shown}।',
  'took {time}': '{time} लगे',
  '{time} before the end of the one above': 'ऊपर वाली के अंत से {time} पहले',
  '{time} after the end of the one above': 'ऊपर वाली के अंत के {time} बाद',
  'from {pool}': '{pool} से',
  'on the credit line': 'उधार सीमा पर',
  'by the group': 'समूह द्वारा',
  'No call that was charged twice: {count} was looked at.':
    'दो बार शुल्क वाली कोई कॉल नहीं: {count} देखी गई।',
  'No two of {count} calls look like one request that was charged twice.':
    '{count} कॉल में से कोई दो ऐसी नहीं जो दो बार शुल्क लगा एक अनुरोध लगें।',
  'It is one call, charged once.': 'यह एक ही कॉल है, शुल्क एक बार लगा।',
  'Nothing was charged for any of them.': 'इनमें से किसी पर शुल्क नहीं लगा।',
  'Only one of them was charged.': 'इनमें से केवल एक पर शुल्क लगा।',
  'The same request was sent again, under another Idempotency-Key, and charged again.':
    'वही अनुरोध किसी और Idempotency-Key के साथ फिर भेजा गया, और उस पर फिर शुल्क लगा।',
  'They may be one request that was sent again: without an Idempotency-Key on each nobody can know. Each was charged.':
    'हो सकता है कि यह एक ही अनुरोध हो जो फिर भेजा गया: हर एक पर Idempotency-Key के बिना यह पता नहीं चल सकता। हर एक पर शुल्क लगा।',
  'They are different requests, each charged for itself.': 'ये अलग-अलग अनुरोध हैं, हर एक पर अपना शुल्क लगा।',
  'length of the prompt': 'प्रॉम्प्ट की लंबाई',
  account: 'खाता',
  key: 'कुंजी',
  model: 'मॉडल',
  content: 'सामग्री',
}
