import {
  failed,
  fixOf,
  preflightErrors,
  type Observation,
  type PreflightErrorCode,
} from '../../preflight/index.ts';
import type { ClusterFacts, MachineFacts, NodeFacts } from '../cluster-facts.ts';
import { judgeMembers, notMeasured } from '../observe.ts';
import { ETCDS } from './etcd-checks.ts';

type JudgeMachine = (
  machine: MachineFacts,
  seen: Pick<Observation, 'threshold'> & { readonly node: string },
) => readonly Observation[];

/**
 * Judges what the agent of each node finds wrong on its own machine. Ignores the report of a silent node, because it is
 * outdated.
 */
function judgeMachines(
  facts: ClusterFacts,
  of: { readonly what: string; readonly threshold: string },
  judge: JudgeMachine,
): readonly Observation[] {
  const { what, threshold } = of;
  return judgeMembers(facts, threshold, ({ name, health, machine }: NodeFacts) => {
    if (health !== 'healthy') return [];
    const subject = `${what} of ${name}`;
    if (machine === undefined)
      return [notMeasured({ subject, node: name, threshold }, `the agent of ${name} does not report it`)];
    return judge(machine, { node: name, threshold });
  });
}

/** Whether the services run that every node needs. Another check, doctor-etcd-member, reports etcd. */
export const service = (facts: ClusterFacts): readonly Observation[] =>
  judgeMachines(facts, { what: 'services', threshold: 'run' }, ({ services }, seen) => {
    const { node } = seen;
    const failing = services.filter(({ name }) => !ETCDS.some(({ subject }) => subject === name));
    if (failing.length === 0) return [{ subject: `services of ${node}`, figure: 'run', ...seen }];
    return failing.map(({ name, why }) => {
      const problem = failed(`the ${name} of ${node} ${why}`);
      return { subject: `${name} of ${node}`, figure: 'is not well', ...seen, problem };
    });
  });

/** Whether the settings of each machine are as a node needs them: checks of `cluster preflight`, which agents repeat. */
export const machine = (facts: ClusterFacts): readonly Observation[] =>
  judgeMachines(facts, { what: 'settings', threshold: 'as a node needs them' }, ({ problems }, seen) => {
    const { node } = seen;
    if (problems.length === 0) return [{ subject: `settings of ${node}`, figure: 'as needed', ...seen }];
    return problems.map((each) => judgeUnmet(each, seen));
  });

/** The result for a check of `cluster preflight` that a machine does not pass, with the fix of that check. */
export function judgeUnmet(
  { code, subject, cause, isWarning }: MachineFacts['problems'][number],
  seen: { readonly node: string; readonly threshold: string },
): Observation {
  return {
    ...{ subject: `${subject} of ${seen.node}`, figure: 'not as needed', ...seen },
    problem: {
      ...{ status: isWarning ? 'warning' : 'failed', cause: `on node ${seen.node}, ${cause}` },
      ...(isPreflightCode(code) && { fix: fixOf(code) }),
    },
  };
}

/** A newer agent may have checks that this program does not know. */
function isPreflightCode(code: string): code is PreflightErrorCode {
  return Object.hasOwn(preflightErrors, code);
}
