import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import type { TestPeer } from '../../../internal/testing/index.ts';
import { OperatorApi } from '../../curatorproto/gen/operatorapi_pb.js';
import { Curator } from '../../curatorproto/gen/curator_pb.js';
import { Distribution } from '../../curatorproto/gen/distribution_pb.js';
import { NodeStreams } from '../../curatorproto/gen/streams_pb.js';
import { TestCurators } from '../fake-curators.ts';

/** Everybody who may call at all; and members that are none any more. */
const WHO = ['node', 'viewer', 'operator', 'owner', 'removed node', 'removed owner'] as const;
type Who = (typeof WHO)[number];

const everybody: readonly Who[] = ['node', 'viewer', 'operator', 'owner'];
const nodes: readonly Who[] = ['node'];
const people: readonly Who[] = ['viewer', 'operator', 'owner'];
const operators: readonly Who[] = ['operator', 'owner'];
const owners: readonly Who[] = ['owner'];

/** Written down a second time, so that an annotation that slips opens nothing unseen. */
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
  test('cover each method and no other', () => {
    expect(METHODS.map(({ name }) => name).sort()).toEqual(Object.keys(ALLOWED).sort());
  });

  test.each(METHODS)(
    '$name is open to those of the table and shut to all others',
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

/** Calls that were authorized. */
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

/** Calls a method whose handlers only write down that they were reached. Answers the code of the refusal. */
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
