/** Google's finish reasons of an answer that one of its filters has stopped. */
export const filterReasons = [
  'SAFETY',
  'RECITATION',
  'LANGUAGE',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'MODEL_ARMOR',
  'JAILBREAK',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
] as const

/** Whether a provider's word for the end of an answer is one of these. */
export function isFilterReason(native: string): native is (typeof filterReasons)[number] {
  return (filterReasons as readonly string[]).includes(native)
}
