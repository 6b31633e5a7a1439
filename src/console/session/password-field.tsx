import { t } from '../strings/text.ts'
import { TextField } from '../ui/form.tsx'

const minPassword = 10
const maxPassword = 128

export function PasswordField({ label = t('Password') }: { label?: string }) {
  return (
    <TextField
      label={label}
      name="password"
      type="password"
      autoComplete="new-password"
      minLength={minPassword}
      maxLength={maxPassword}
      required
      hint={t('At least {least} characters. A few words in a row are good.', { least: minPassword })}
    />
  )
}
