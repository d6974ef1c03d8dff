import { childSignal, untilAborted } from '../../internal/cleanup/index.ts';
import { type CodedError, findCoded } from '../../internal/errors/index.ts';
import { type Runnable, type Scope, supervise, type TreeSnapshot } from '../../internal/supervisor/index.ts';
import { type Enrolment, untilFileChanges } from '../enrolment/index.ts';
import type { Membership } from '../membership/index.ts';
import { refuseSingleEtcd } from '../consensus/index.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';
import { openNode } from './open-node.ts';
import { recoveryRunnable, runPendingRecovery } from '../recovery/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import { resetRunnable, runPendingReset } from '../reset/index.ts';
import { createRunnables } from './runnables.ts';

const GRACE_MS = 10_000;

/**
 * The agent: enrolment once, then the roles of this machine for its whole life. Resolves when its signal fired; rejects
 * when the enrolment failed in a way that another start may mend.
 */
export async function runAgent(ports: AgentPorts, options: AgentOptions): Promise<void> {
  const { log, clock, random } = ports;
  using life = childSignal(options.signal);
  const outcome = await runPendingReset(ports, options.provisioning, life.signal);
  if (outcome === 'restarting') return await untilAborted(life.signal);
  await refuseSingleEtcd(ports.files, AGENT_PATHS.state);
  await runPendingRecovery(ports, life.signal);
  const node = await openNode(ports, options, life.signal);
  const tree = { of: (): TreeSnapshot => [], hurry: (): void => undefined };
  const runnables = createRunnables({
    ports,
    node,
    version: options.version,
    tree: () => tree.of(),
    retryNow: () => tree.hurry(),
  });
  const enrolment = enrolmentRunnable(
    node.enrolment,
    (error, signal) => untilFileChanges(ports, error, signal),
    (reason) => life.abort(reason),
  );
  const end = (reason: unknown): void => life.abort(reason);
  const reset = resetRunnable({ orders: node.resetOrders, clock }, end);
  const recovery = recoveryRunnable({ desk: node.recovery, clock }, end);
  const root: Runnable = async (scope) => {
    const all = { enrolment, reset, recovery, ...runnables };
    for (const [name, runnable] of Object.entries(all)) scope.run(name, runnable);
    scope.healthy();
    await options.onReady(`fingerprint ${node.identity.fingerprint}`);
    await untilAborted(scope.signal);
  };
  const supervision = supervise({ root, log, clock, random, graceMs: GRACE_MS, signal: life.signal });
  tree.of = () => supervision.tree();
  tree.hurry = () => supervision.retryNow();
  await supervision.finished;
  if (!options.signal.aborted && life.signal.aborted) throw life.signal.reason;
}

/**
 * After Failed(retryable) the agent ends and systemd starts it again; after Failed(final) it stays to answer why, until
 * what has made it fail is another.
 */
function enrolmentRunnable(
  enrolment: Enrolment<Membership>,
  untilMended: (error: CodedError, signal: AbortSignal) => Promise<void>,
  end: (reason: unknown) => void,
): Runnable {
  return async (scope: Scope) => {
    scope.healthy();
    await enrolment.run(scope.signal);
    try {
      await enrolment.finished(scope.signal);
    } catch (error) {
      scope.signal.throwIfAborted();
      const coded = findCoded(error);
      if (coded?.retryable === false) {
        scope.waiting(`an operator: ${coded.message}`);
        await untilMended(coded, scope.signal);
      }
      end(error);
      scope.signal.throwIfAborted();
    }
    scope.done();
  };
}
