import { counted } from '../../printable/index.ts';
import { failed, warned, type Observation } from '../../preflight/index.ts';
import type { ClusterFacts, LocalFacts } from '../cluster-facts.ts';
import { judgePart, type Observe } from '../observe.ts';
import { judgeUnmet } from './host-checks.ts';

// Checks of facts that were collected on a machine itself. Facts of a whole cluster have no result in these checks.

type Unit = Extract<LocalFacts['units'], { ok: true }>['value'][number];

function judgeLocal(
  { local }: ClusterFacts,
  judge: (local: LocalFacts) => readonly Observation[],
): readonly Observation[] {
  return local === undefined ? [] : judge(local);
}

/** Whether the address of the node is on the machine, and whether the machine reaches the other control planes. */
export const network: Observe = (facts) =>
  judgeLocal(facts, ({ node, network: { ownAddress, addresses, peers } }) => [
    ...(ownAddress === undefined ? [] : [addressOf(node, ownAddress, addresses)]),
    ...reachabilityOf(node, peers),
  ]);

function addressOf(node: string, address: string, addresses: readonly string[]): Observation {
  const isThere = addresses.includes(address);
  const cause = `the address ${address} of ${node} is on no interface that is up`;
  return {
    ...{ subject: `address of ${node}`, node, threshold: 'on an interface that is up' },
    figure: isThere ? address : 'missing',
    problem: failed(isThere ? undefined : cause),
  };
}

function reachabilityOf(node: string, peers: LocalFacts['network']['peers']): readonly Observation[] {
  const threshold = 'reaches the other control planes';
  const subject = `network of ${node}`;
  const lost = peers.flatMap(({ node: peer, answer }) => (answer.ok ? [] : [{ peer, why: answer.error }]));
  const figure =
    peers.length === 0
      ? 'no other control plane is known'
      : `reaches ${peers.length - lost.length} of ${counted(peers.length, 'other control plane')}`;
  const seen = { subject, node, figure, threshold };
  const [first] = lost;
  if (first === undefined) return [seen];
  const names = lost.map(({ peer }) => peer).join(', ');
  const which = lost.length === peers.length ? `none of the other control planes (${names})` : `not ${names}`;
  const cause = `${node} reaches ${which}: ${first.why}`;
  return [{ ...seen, problem: lost.length === peers.length ? failed(cause) : warned(cause) }];
}

/** Whether the machine meets the requirements of a node. */
export const requirements: Observe = (facts) =>
  judgeLocal(facts, ({ node, requirements: part }) => {
    const threshold = 'every check of `cluster preflight` passed';
    const subject = `requirements of ${node}`;
    return judgePart(part, { subject, node, threshold }, (unmet) =>
      unmet.length === 0
        ? [{ subject, node, threshold, figure: 'all met' }]
        : unmet.map((each) => judgeUnmet(each, { node, threshold })),
    );
  });

/** Whether the systemd units that the node needs are running. */
export const units: Observe = (facts) =>
  judgeLocal(facts, ({ node, units: part }) => {
    const threshold = 'running';
    return judgePart(part, { subject: `units of ${node}`, node, threshold }, (all) =>
      all
        .filter(({ isNeeded, active }) => isNeeded || active === 'failed')
        .map((unit) => {
          const seen = { subject: `${unit.name} of ${node}`, node, threshold };
          const why = whyNotRunning(unit);
          if (why === undefined) return { ...seen, figure: 'running' };
          const cause = `${unit.name} on ${node} ${why}`;
          return { ...seen, figure: unit.active, problem: unit.isNeeded ? failed(cause) : warned(cause) };
        }),
    );
  });

function whyNotRunning({ load, active, sub, result, restarts }: Unit): string | undefined {
  if (active === 'active' || active === 'reloading') return undefined;
  if (load === 'not-found') return 'does not exist';
  if (load === 'masked') return 'is masked, so systemd does not start it';
  const again = restarts === 0 ? '' : ` after ${counted(restarts, 'restart')}`;
  if (active === 'failed') return `has failed (${result})${again}`;
  if (active === 'activating') return `is starting (${sub}, last result ${result})${again}`;
  return `does not run (${active}, last result ${result})`;
}
