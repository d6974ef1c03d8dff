import { expect, test } from '@jest/globals';
import { PORTS } from '../endpoint/index.ts';
import { REQUIRED_PORTS } from './node-requirements.ts';

/** Ports that the checks do not probe. */
const NOT_PROBED = [
  { why: 'the agent holds it while it checks its machine', ports: [PORTS.init, PORTS.agentMetrics] },
  {
    why: 'used only during a recovery of etcd, which fails if they are in use',
    ports: Object.values(PORTS.recoveryEtcd),
  },
  {
    why: 'used only while a backup is proved, which fails if they are in use',
    ports: Object.values(PORTS.proofEtcd),
  },
];

test('REQUIRED_PORTS has every port of a node but those that are not probed for a reason', () => {
  const all = Object.values(PORTS).flatMap((port) =>
    typeof port === 'number' ? [port] : Object.values(port),
  );
  const notProbed = NOT_PROBED.flatMap(({ ports }) => ports);
  const probed = Object.keys(REQUIRED_PORTS).map(Number);
  expect([...probed, ...notProbed].sort()).toEqual([...all].sort());
});
