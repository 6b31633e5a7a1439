// The pages of an account by their addresses.

import { Route, Switch } from 'wouter'
import { t } from '../strings/text.ts'
import { PageHead } from '../ui/kit.tsx'
import { Connect } from './connect.tsx'
import { Credits } from './credits.tsx'
import { ReceiptPage, StatementPage } from './payments.tsx'
import { MyGroup, MyGroups } from './groups.tsx'
import { TopUpPage, TopUpState } from './top-up.tsx'
import { Keys } from './keys.tsx'
import { McpServers } from './mcp-servers.tsx'
import { Models } from './models.tsx'
import { Overview } from './overview.tsx'
import { PlansPage } from './plans.tsx'
import { RequestPage, Requests } from './requests.tsx'
import { Settings } from './settings.tsx'
import { WebhooksPage } from './webhooks.tsx'
import { Usage } from './usage.tsx'

/** Here, since it is loaded with what only a signed-in reader needs. */
export { Palette } from '../palette.tsx'

export default function Pages() {
  return (
    <Switch>
      <Route path="/" component={Overview} />
      <Route path="/keys" component={Keys} />
      <Route path="/groups" component={MyGroups} />
      <Route path="/groups/:id" component={MyGroup} />
      <Route path="/credits" component={Credits} />
      <Route path="/credits/plans" component={PlansPage} />
      <Route path="/credits/top-up" component={TopUpPage} />
      <Route path="/credits/top-ups/:id" component={TopUpState} />
      <Route path="/credits/top-ups/:id/receipt" component={ReceiptPage} />
      <Route path="/credits/statements/:month?" component={StatementPage} />
      <Route path="/usage" component={Usage} />
      <Route path="/requests" component={Requests} />
      <Route path="/requests/:id" component={RequestPage} />
      <Route path="/models" component={Models} />
      <Route path="/mcp" component={McpServers} />
      <Route path="/connect" component={Connect} />
      <Route path="/settings" component={Settings} />
      <Route path="/settings/webhooks" component={WebhooksPage} />
      <Route>
        <PageHead title={t('There is no such page.')} />
      </Route>
    </Switch>
  )
}
