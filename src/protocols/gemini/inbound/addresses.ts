// Where addresses may be in the body of a Gemini request.

import { parts } from '../../request/addresses.ts'
import { gatewayPlaces } from '../../request/gateway-fields.ts'

const fileData = parts({ mimeType: 'words', displayName: 'words', fileUri: 'reference' })

const part = parts({
  text: 'words',
  thought: 'words',
  thoughtSignature: 'words',
  inlineData: 'words',
  fileData,
  functionCall: 'words',
  functionResponse: parts({
    id: 'words',
    name: 'words',
    response: 'words',
    willContinue: 'words',
    scheduling: 'words',
    parts: parts({ inlineData: 'words', fileData }),
  }),
  executableCode: 'words',
  codeExecutionResult: 'words',
})

const content = parts({ role: 'words', parts: part })

export const addresses = parts({
  ...gatewayPlaces,
  model: 'words',
  contents: content,
  systemInstruction: content,
  tools: 'words',
  toolConfig: 'words',
  generationConfig: 'words',
  safetySettings: 'words',
  // Refused.
  cachedContent: 'words',
  labels: 'words',
})
