// Hindi: plans.

export const plans: Readonly<Record<string, string>> = {
  Plans: 'प्लान',
  Plan: 'प्लान',
  'A plan pays for chats until its period ends. API keys spend purchased credit alone.':
    'प्लान अपनी अवधि ख़त्म होने तक चैट का ख़र्च देता है। API कुंजियाँ सिर्फ़ ख़रीदा हुआ क्रेडिट ख़र्च करती हैं।',
  'No plans are sold here.': 'यहाँ कोई प्लान नहीं बिकता।',
  'Your plans': 'आपके प्लान',
  'to come': 'आगे शुरू होगा',
  'It ends on {day} and does not renew itself: nothing is charged until you pay again.':
    'यह {day} को ख़त्म होगा और अपने आप नया नहीं होगा: जब तक आप फिर भुगतान न करें, कुछ नहीं कटेगा।',
  'It ends on {day}, and you will not be reminded.': 'यह {day} को ख़त्म होगा, और आपको याद नहीं दिलाया जाएगा।',
  'Do not renew': 'नया न करें',
  'for a month': 'एक महीने के लिए',
  'for {count} months': '{count} महीनों के लिए',
  '{credit} of credit for chats': 'चैट के लिए {credit} का क्रेडिट',
  'Every model, while there is credit': 'हर मॉडल, जब तक क्रेडिट बचा हो',
  'These premium models: {models}': 'ये प्रीमियम मॉडल: {models}',
  'Begins when it is paid.': 'भुगतान होते ही शुरू होता है।',
  'Begins on {day}, when what you have ends.': '{day} को शुरू होगा, जब आपका मौजूदा प्लान ख़त्म होगा।',
  'The price has changed while this page was open: pay if you agree.':
    'पेज खुला रहते क़ीमत बदल गई है: सहमत हों तो भुगतान करें।',
  'Renew {plan}': '{plan} नया करें',
  'Buy {plan}': '{plan} ख़रीदें',
  '{plan} ends on {day}.': '{plan} {day} को ख़त्म होगा।',
  'Renew it': 'इसे नया करें',
  '{plan}, {from} to {to}': '{plan}, {from} से {to} तक',
  '{plan} for {amount}': '{amount} में {plan}',
  '{period}: {credit} of credit for chats.': '{period}: चैट के लिए {credit} का क्रेडिट।',
  '{period}: {credit} of credit for chats': '{period}: चैट के लिए {credit} का क्रेडिट',
  '{amount} was paid back, and the plan has ended.': '{amount} लौटाया गया, और प्लान ख़त्म हो गया।',
  '{amount} was paid back. The plan goes on.': '{amount} लौटाया गया। प्लान जारी है।',
  'The payment is disputed. If it is lost, the plan ends.':
    'भुगतान पर विवाद है। अगर वह हार गए, तो प्लान ख़त्म हो जाएगा।',
  'Grant a plan': 'प्लान दें',
  'payments.plans in the configuration says what is sold.':
    'क्या बिकता है, यह कॉन्फ़िगरेशन का payments.plans बताता है।',
  Price: 'क़ीमत',
  Period: 'अवधि',
  'a month': 'एक महीना',
  '{count} months': '{count} महीने',
  'Who has a plan': 'किसके पास प्लान है',
  'Nobody has one.': 'किसी के पास नहीं।',
}
