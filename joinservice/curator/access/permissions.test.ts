import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import type { TestPeer } from '../../../internal/testing/index.ts';
import { OperatorApi } from '../../curatorproto/gen/operatorapi_pb.js';
import { Curator } from '../../curatorproto/gen/curator_pb.js';
import { Distribution } from '../../curatorproto/gen/distribution_pb.js';
import { NodeStreams } from '../../curatorproto/gen/streams_pb.js';
import { TestCurators } from '../fake-curators.ts';

/** Callers with every role, and callers whose membership has ended. */
const WHO = ['node', 'viewer', 'operator', 'owner', 'removed node', 'removed owner'] as const;
type Who = (typeof WHO)[number];

const everybody: readonly Who[] = ['node', 'viewer', 'operator', 'owner'];
const nodes: readonly Who[] = ['node'];
const people: readonly Who[] = ['viewer', 'operator', 'owner'];
const operators: readonly Who[] = ['operator', 'owner'];
const owners: readonly Who[] = ['owner'];

/**
 * The expected permissions, written a second time so that a wrong annotation in the contract fails the test.
 */
const ALLOWED: Readonly<Record<string, readonly Who[]>> = {
  'Curator.CheckHealth': everybody,
  'Curator.GetClusterInfo': everybody,
  'Curator.GetNode': everybody,
  'Curator.ListNodes': everybody,
  'Curator.WatchNode': everybody,
  'Curator.WatchNodes': everybody,
  'Curator.GetConfiguration': everybody,
  'Curator.UpdateNodeStatus': nodes,
  'Curator.Heartbeat': nodes,
  'Curator.SetNodeRoles': operators,
  'Curator.SetNodeState': operators,
  'Curator.UpdateNodeLabels': operators,
  'Curator.DeleteNode': operators,
  'Curator.UpdateConfiguration': operators,
  'Curator.GetInitResult': owners,
  'OperatorApi.ListJoins': people,
  'OperatorApi.DecideJoin': operators,
  'OperatorApi.ListAudit': people,
  'OperatorApi.GetTrace': people,
  'OperatorApi.ListOperators': people,
  'OperatorApi.PutOperator': owners,
  'OperatorApi.RenewOperator': people,
  'OperatorApi.GetOwnership': people,
  'OperatorApi.PutOwnership': owners,
  'OperatorApi.IssueKubeconfig': owners,
  'OperatorApi.GetCollateral': people,
  'OperatorApi.PutCollateral': operators,
  'OperatorApi.DeleteOperator': owners,
  'OperatorApi.ListDocuments': people,
  'OperatorApi.PutDocuments': owners,
  'OperatorApi.RotateKeys': owners,
  'OperatorApi.GetKeys': people,
  'Distribution.FetchBlob': everybody,
  'Distribution.WatchDirectory': everybody,
  'Distribution.FetchCollateral': everybody,
  'Distribution.FetchKeys': everybody,
  'NodeStreams.OpenSession': nodes,
  'NodeStreams.StreamLogs': people,
  'NodeStreams.GetEvidence': people,
  'NodeStreams.GetMetrics': people,
  'NodeStreams.ProbeRemoved': operators,
  'NodeStreams.ResetNode': owners,
};

const SERVICES: readonly DescService[] = [Curator, OperatorApi, Distribution, NodeStreams];
const METHODS = SERVICES.flatMap((service) =>
  service.methods.map((method) => ({ name: `${service.name}.${method.name}`, service, method })),
);

describe('the permissions of every contract that curators serve', () => {
  test('the table of permissions lists every method of the contracts and no other', () => {
    expect(METHODS.map(({ name }) => name).sort()).toEqual(Object.keys(ALLOWED).sort());
  });

  test.each(METHODS)(
    '$name accepts the callers of the table and denies all others',
    async ({ name, service, method }) => {
      await using curators = await TestCurators.create();
      const peers = await createPeers(curators);
      const served: Who[] = [];
      const codes: string[] = [];
      for (const who of WHO) {
        const before = calls.length;
        const code = await callAs(curators, { service, method, peer: peers[who] });
        if (calls.length > before) served.push(who);
        else codes.push(`${who}: ${code}`);
      }
      expect(served).toEqual(ALLOWED[name]);
      const refused = WHO.filter((who) => !served.includes(who));
      expect(codes).toEqual(
        refused.map(
          (who) => `${who}: ${who.startsWith('removed') ? 'curator-not-member' : 'curator-denied'}`,
        ),
      );
    },
  );
});

/** The calls that authorizeCaller() accepted. */
const calls: string[] = [];

async function createPeers({ cluster, owner }: TestCurators): Promise<Readonly<Record<Who, TestPeer>>> {
  const removed = [await cluster.addNode('gone'), await cluster.addOperator('gone', 'owner')] as const;
  for (const each of removed) await cluster.forget(each);
  return {
    node: await cluster.addNode('n'),
    viewer: await cluster.addOperator('v', 'viewer'),
    operator: await cluster.addOperator('o', 'operator'),
    owner,
    'removed node': removed[0],
    'removed owner': removed[1],
  };
}

/** Calls a method whose handlers only record the call. Returns the error code of a refusal. */
async function callAs(
  curators: TestCurators,
  call: { readonly service: DescService; readonly method: DescMethod; readonly peer: TestPeer },
): Promise<string> {
  const { service, method, peer } = call;
  const isStream = method.methodKind === 'server_streaming' || method.methodKind === 'bidi_streaming';
  const reached = (): void => void calls.push(method.name);
  const inside = Object.fromEntries(
    service.methods.map(({ localName }) => [
      localName,
      isStream
        ? async function* () {
            reached();
            yield await Promise.resolve({});
          }
        : async () => (reached(), await Promise.resolve({})),
    ]),
  );
  const guarded = curators.all[0]?.authorize(service, inside as never).handlers[method.localName] as (
    request: unknown,
    call: unknown,
  ) => Promise<unknown> & AsyncIterable<unknown>;
  const signal = new AbortController().signal;
  try {
    const answer = guarded({}, { peer: peer.identity, signal, address: '127.0.0.1' });
    if (isStream) for await (const _ of answer) break;
    else await answer;
    return '';
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}
