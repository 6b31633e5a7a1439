// What models write: prose in many scripts, code, digits, base64, emoji. For counts that nobody but the gateway makes.

/** Sentences of each kind; answers are put together from them. */
const sentences: Readonly<Record<string, readonly string[]>> = {
  english: [
    'All human beings are born free and equal in dignity and rights.',
    'The river runs to the sea past old mills, where water turned heavy wheels for many hundred years.',
    'Whoever measures the water must not lose a drop: neither at the weir nor in the ledger.',
    'In short, the committee postponed its decision until the engineers had finished their measurements.',
  ],
  german: [
    'Alle Menschen sind frei und gleich an Würde und Rechten geboren.',
    'Die Wasserstandsmeldungen werden täglich um sieben Uhr veröffentlicht und sorgfältig aufbewahrt.',
    'Wer den Fluss misst, darf keinen Tropfen verlieren, weder am Wehr noch in den Büchern.',
  ],
  chinese: [
    '人人生而自由，在尊严和权利上一律平等。',
    '河水流过古老的磨坊，奔向大海，几百年来推动着沉重的水轮。',
    '测量河水的人一滴也不能丢失，无论是在堰上还是在账本里。',
  ],
  japanese: [
    'すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。',
    '川は古い水車小屋のそばを通って海へ流れ、何百年も重い車輪を回してきました。',
    'データベースのトランザクションは、エラーが発生した場合にロールバックされます。',
  ],
  korean: [
    '모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.',
    '강물은 오래된 물레방앗간을 지나 바다로 흘러가며 수백 년 동안 무거운 바퀴를 돌렸다.',
    '물을 재는 사람은 한 방울도 잃어버려서는 안 된다.',
  ],
  russian: [
    'Все люди рождаются свободными и равными в своём достоинстве и правах.',
    'Река течёт к морю мимо старых мельниц, где вода сотни лет вращала тяжёлые колёса.',
    'Кто измеряет воду, не должен потерять ни капли: ни у плотины, ни в бухгалтерской книге.',
  ],
  arabic: [
    'يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.',
    'يجري النهر إلى البحر مارًا بالطواحين القديمة حيث أدار الماء عجلات ثقيلة لمئات السنين.',
    'من يقيس الماء يجب ألا يفقد قطرة واحدة، لا عند السد ولا في الدفتر.',
  ],
  hebrew: [
    'כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.',
    'הנהר זורם אל הים ליד טחנות ישנות, שם סובבו המים גלגלים כבדים במשך מאות שנים.',
    'מי שמודד את המים אסור לו לאבד אף טיפה.',
  ],
  hindi: [
    'सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।',
    'नदी पुरानी चक्कियों के पास से होकर समुद्र की ओर बहती है, जहाँ पानी ने सैकड़ों वर्षों तक भारी पहिए घुमाए।',
    'जो पानी मापता है, उसे एक बूँद भी नहीं खोनी चाहिए।',
  ],
  thai: [
    'มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ',
    'แม่น้ำไหลลงสู่ทะเลผ่านโรงสีเก่า ที่ซึ่งน้ำหมุนกงล้อหนักมาหลายร้อยปี',
    'ผู้ที่วัดน้ำต้องไม่ทำหายแม้แต่หยดเดียว',
  ],
  greek: [
    'Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.',
    'Το ποτάμι κυλά προς τη θάλασσα περνώντας από παλιούς μύλους, όπου το νερό γύριζε βαριές ρόδες.',
    'Όποιος μετρά το νερό δεν πρέπει να χάσει ούτε μια σταγόνα.',
  ],
  tamil: [
    'மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும் உரிமைகளிலும் சமமானவர்கள்.',
    'ஆறு பழைய ஆலைகளைக் கடந்து கடலை நோக்கி ஓடுகிறது.',
    'தண்ணீரை அளப்பவர் ஒரு துளியையும் இழக்கக் கூடாது.',
  ],
  code: [
    'export function priceOf(usage: Usage, rates: Rates): bigint {\n  let total = 0n\n  for (const bucket of tokenBuckets) total += BigInt(usage[bucket]) * rates[bucket]\n  return total\n}\n',
    'def settle(call_id, cost):\n    with ledger.transaction() as tx:\n        tx.execute("UPDATE wallet SET held = held - ? WHERE id = ?", (cost, call_id))\n        return tx.commit()\n',
    '<div class="receipt" data-id="42">\n  <span>{{ total.toFixed(6) }}</span>\n</div>\n',
    'if (!ok && n >= 10) { errors.push(`line ${i + 1}: ${text.trim()}`); continue; }\n',
  ],
  digits: [
    '3.141592653589793238462643383279502884197169399375105820974944592307816406286208998628034825',
    '20260101 4111111111111111 0042 1767225600000 98765432109876543210 1000000 271828182845904523536',
    '1, 22, 333, 4444, 55555, 666666, 7777777, 88888888, 999999999',
  ],
  base64: [
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    'VGhlIHJpdmVyIHJ1bnMgdG8gdGhlIHNlYSBwYXN0IG9sZCBtaWxscyB3aGVyZSB3YXRlciB0dXJuZWQgaGVhdnkgd2hlZWxz',
    'q83vEjRWeJqrze8SNFZ4mqvN7xI0Vniaq83vEjRWeJpZ0xk7Pq2b8Lw1Yt4Hc9Rz6Nf3Md5Ka7Jb0Xs+Gv/Uo8Ti2Ep=',
  ],
  emoji: [
    '🎉🚀🌊🏭💧📚✅🔥👩‍🔬🧑‍💻🇮🇳🇩🇪❤️‍🔥',
    '😀😃😄😁😆😅🤣😂🙂🙃🫠😉😊😇🥰😍🤩😘',
    '👍🏽👏🏾🙏🏿 🦊🐻🐼🐨🐯🦁🐮🐷 ⚡️☀️🌈❄️',
  ],
}

export const kinds = Object.keys(sentences)

/** An answer of one kind, put together from its sentences until it has so many characters; `pick` chooses among them. */
export function textOf(kind: string, characters: number, pick: <T>(of: readonly T[]) => T): string {
  const joint = kind === 'code' || kind === 'base64' ? '' : ' '
  let text = pick(sentences[kind]!)
  while (text.length < characters) text += joint + pick(sentences[kind]!)
  return text
}
