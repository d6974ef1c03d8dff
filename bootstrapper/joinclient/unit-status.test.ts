import { expect, test } from '@jest/globals';
import type { JoinStatus } from './join-status.ts';
import { unitStatus } from './unit-status.ts';

const problem = {
  ...{ code: 'joinclient-owner-unknown', message: 'cluster c1 has unknown owner rdUh…' },
  ...{ fix: 'Add the owner.', exit: 'refused', timeMs: 1 },
};
const endpoints = ['10.0.0.1:9090'];
const waiting: JoinStatus = {
  ...{ kind: 'waiting', endpoint: '10.0.0.1:9090', clusterId: 'c1', clusterName: 'prod', joinId: 'node-1' },
  ...{ code: 'join-pending', message: 'an operator must approve it', fingerprint: '', sinceMs: 1 },
  ...{ position: 0, estimateMs: 0 },
};

test.each<{ status: JoinStatus; want: string }>([
  { status: { kind: 'idle' }, want: '' },
  {
    status: { kind: 'asking', endpoints, sinceMs: 1, lastError: undefined },
    want: '; asks 10.0.0.1:9090 to let it join',
  },
  {
    status: { kind: 'asking', endpoints, sinceMs: 1, lastError: problem },
    want: '; asks 10.0.0.1:9090 to let it join; last error: joinclient-owner-unknown: cluster c1 has unknown owner rdUh…. Fix: Add the owner.',
  },
  { status: waiting, want: '; waits for cluster prod: an operator must approve it' },
  {
    status: { kind: 'refused', endpoint: '10.0.0.1:9090', problem },
    want: '; refused by 10.0.0.1:9090: joinclient-owner-unknown: cluster c1 has unknown owner rdUh…. Fix: Add the owner.',
  },
  {
    status: { kind: 'admitted', clusterId: 'c1', nodeName: 'n1', roles: [] },
    want: '; admitted to cluster c1 as n1',
  },
  { status: { kind: 'joined', clusterId: 'c1', nodeName: 'n1' }, want: '' },
])(
  'unitStatus() begins with the fingerprint and says why the machine is not a member: $want',
  ({ status, want }) => {
    expect(unitStatus('sha256:ab', status)).toBe(`fingerprint sha256:ab${want}`);
  },
);
