// Hindi: providers, models and what is changed of them while the gateway runs.

export const models: Readonly<Record<string, string>> = {
  'Last hour': 'पिछला घंटा',
  'no calls yet': 'अभी तक कोई कॉल नहीं',
}
