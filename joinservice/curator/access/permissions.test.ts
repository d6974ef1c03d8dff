import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import type { TestPeer } from '../../../internal/testing/index.ts';
import { OperatorApi } from '../../curatorproto/gen/operatorapi_pb.js';
import { Curator } from '../../curatorproto/gen/curator_pb.js';
import { Distribution } from '../../curatorproto/gen/distribution_pb.js';
import { NodeStreams } from '../../curatorproto/gen/streams_pb.js';
import { TestCurators } from '../fake-curators.ts';
import { ACCESS_RULES } from './access-rules.ts';

/** Callers with every role, and callers whose membership has ended. */
const WHO = ['node', 'viewer', 'operator', 'owner', 'removed node', 'removed owner'] as const;
type Who = (typeof WHO)[number];

/**
 * The rows of the table in docs/operators.md. The page is written from the list that authorizes the calls, and
 * is reviewed with each change. If a call is authorized differently from its row, the test of this row fails.
 */
const ROWS = rowsOf(readFileSync(new URL('../../../docs/operators.md', import.meta.url), 'utf8'));

const SERVICES: readonly DescService[] = [Curator, OperatorApi, Distribution, NodeStreams];
const METHODS = SERVICES.flatMap((service) =>
  service.methods.map((method) => ({ name: `${service.name}.${method.name}`, service, method })),
);

describe('the permissions of every contract that curators serve', () => {
  test('the table of permissions lists every method of the contracts and no other', () => {
    expect(METHODS.map(({ name }) => name).sort()).toEqual(Object.keys(ACCESS_RULES).sort());
    expect([...ROWS.keys()]).toEqual(Object.keys(ACCESS_RULES));
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
      expect(served).toEqual(ROWS.get(name));
      const refused = WHO.filter((who) => !served.includes(who));
      expect(codes).toEqual(
        refused.map(
          (who) => `${who}: ${who.startsWith('removed') ? 'curator-not-member' : 'curator-denied'}`,
        ),
      );
    },
  );
});

/** The callers that each row of the table allows, by the name of the call. */
function rowsOf(page: string): ReadonlyMap<string, readonly Who[]> {
  const lines = page.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
  const ranks = ['viewer', 'operator', 'owner'] as const;
  return new Map(
    lines.flatMap(([, call = '', role = '', nodes = '']) => {
      const name = /^`([A-Za-z]+\.[A-Za-z]+)`$/.exec(call)?.[1];
      if (name === undefined) return [];
      const lowest = ranks.findIndex((each) => role.startsWith(`\`${each}\``));
      if (lowest < 0) expect(role).toBe('none');
      const people = lowest < 0 ? [] : ranks.slice(lowest);
      return [[name, [...(nodes === 'yes' ? (['node'] as const) : []), ...people]]];
    }),
  );
}

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
