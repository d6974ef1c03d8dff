import { describe, expect, test } from '@jest/globals';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SystemClock } from '../../internal/clock/index.ts';
import { FakeClock } from '../../internal/testing/fake-clock.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { untilAborted } from '../../internal/cleanup/index.ts';
import {
  discover,
  fileEndpoints,
  knownEndpoints,
  metadataEndpoints,
  type EndpointSource,
} from './discovery.ts';

const signal = new AbortController().signal;
const known = (...list: string[]): EndpointSource => knownEndpoints('test', () => list);

describe('discover()', () => {
  test('lists each endpoint once, in the order of the sources, with the default port of the join service', async () => {
    const sources = [known('10.0.0.1', 'c2.example:1234'), known('10.0.0.1:9090', '2001:db8::1')];
    const { endpoints, problems } = await discover(sources, new SystemClock(), signal);
    expect(endpoints).toEqual(['10.0.0.1:9090', 'c2.example:1234', '[2001:db8::1]:9090']);
    expect(problems).toEqual([]);
  });

  test('reports invalid endpoints, and a failing source does not block the others', async () => {
    const broken: EndpointSource = { name: 'broken', list: () => Promise.reject(new Error('no way')) };
    const { endpoints, problems } = await discover(
      [broken, known('a b', '10.0.0.1')],
      new SystemClock(),
      signal,
    );
    expect(endpoints).toEqual(['10.0.0.1:9090']);
    expect(problems.map(({ source }) => source)).toEqual(['broken', 'test']);
  });

  test('does not wait for a source that does not answer', async () => {
    const clock = new FakeClock();
    const mute: EndpointSource = { name: 'mute', list: untilAborted };
    const found = discover([mute, known('10.0.0.1')], clock, signal);
    await clock.advance(6_000);
    expect((await found).problems).toMatchObject([{ source: 'mute' }]);
  });
});

describe('fileEndpoints()', () => {
  test.each([
    { name: 'no endpoints from a missing file', text: undefined, want: [] },
    {
      name: 'the list of endpoints, and ignores other keys',
      text: '{"joinEndpoints":["10.0.0.1"],"x":1}',
      want: ['10.0.0.1:9090'],
    },
    { name: 'no endpoints from a file without the key', text: '{}', want: [] },
  ])('returns $name', async ({ text, want }) => {
    const files = new MemoryFiles();
    await files.makeDirectory('/etc/cluster');
    if (text !== undefined) await files.writeAtomic('/etc/cluster/join.json', text);
    const source = fileEndpoints(files, '/etc/cluster/join.json');
    expect((await discover([source], new SystemClock(), signal)).endpoints).toEqual(want);
  });

  test.each(['', '[]x', '{"joinEndpoints":"10.0.0.1"}', '{"joinEndpoints":[1]}'])(
    'refuses a file with the content %j',
    async (text) => {
      const files = new MemoryFiles();
      await files.makeDirectory('/etc/cluster');
      await files.writeAtomic('/etc/cluster/join.json', text);
      await expect(fileEndpoints(files, '/etc/cluster/join.json').list(signal)).rejects.toThrow();
    },
  );
});

describe('metadataEndpoints()', () => {
  const serve = async (status: number, body: string) => {
    const server = createServer((_, response) => response.writeHead(status).end(body)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const source = metadataEndpoints(`http://127.0.0.1:${port}/`);
    const close = () => new Promise((resolve) => server.close(resolve).closeAllConnections());
    return { source, [Symbol.asyncDispose]: async () => void (await close()) };
  };

  test('returns endpoints', async () => {
    await using service = await serve(200, '{"joinEndpoints":["10.0.0.1"]}');
    expect(await service.source.list(signal)).toEqual(['10.0.0.1']);
  });

  test.each([
    { name: 'an error status', status: 404, body: '{"joinEndpoints":["10.0.0.1"]}' },
    { name: 'a response above the size limit', status: 200, body: `"${'x'.repeat(70_000)}"` },
    { name: 'text that is not JSON', status: 200, body: '<html>' },
  ])('refuses $name', async ({ status, body }) => {
    await using service = await serve(status, body);
    await expect(service.source.list(signal)).rejects.toThrow();
  });
});
