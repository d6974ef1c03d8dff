import { expect, test } from '@jest/globals';
import { create } from '@bufbuild/protobuf';
import { NodeStatusSchema } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { MemberOnRecord } from '../../membership/index.ts';
import { differingEtcd } from './own-content.ts';

const member = (
  content: Parameters<typeof create<typeof NodeStatusSchema>>[1],
  roles = ['ConsensusMember', 'KubernetesController'],
) => ({ roles, status: create(NodeStatusSchema, content) }) as MemberOnRecord;
const agreed = { comparedMs: 2n, agreeing: ['a', 'b', 'c'] };
const differed = { comparedMs: 1n, agreeing: ['b', 'c'], differing: ['a'] };

test.each([
  { name: 'differs', reports: [{ state: differed }], nodeId: 'a', want: 'state' },
  { name: 'differs in the other etcd', reports: [{ kubernetes: differed }], nodeId: 'a', want: 'kubernetes' },
  {
    name: 'agrees, while another member differs',
    reports: [{ state: differed }],
    nodeId: 'b',
    want: undefined,
  },
  {
    name: 'has agreed since',
    reports: [{ state: differed }, { state: agreed }],
    nodeId: 'a',
    want: undefined,
  },
  { name: 'was never compared', reports: [undefined], nodeId: 'a', want: undefined },
])('differingEtcd() of a member that $name: $want', ({ reports, nodeId, want }) => {
  const members = reports.map((etcdContents) => member(etcdContents === undefined ? {} : { etcdContents }));
  expect(differingEtcd(nodeId, members)).toBe(want);
  expect(differingEtcd(nodeId, members.toReversed())).toBe(want);
});

test('differingEtcd() ignores a worker, which has nothing to compare: it could stop the backups of the cluster', () => {
  const worker = member({ etcdContents: { state: { ...differed, comparedMs: 9n } } }, ['KubernetesWorker']);
  expect(differingEtcd('a', [member({ etcdContents: { state: agreed } }), worker])).toBeUndefined();
});
