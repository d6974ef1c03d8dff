import { afterEach, describe, expect, test } from '@jest/globals';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { FakeClock } from '../../internal/testing/index.ts';
import { formatEndpoint } from '../../internal/endpoint/index.ts';
import { lookUpName, NameLookupProbe } from './name-lookup-probe.ts';

const SERVER = '10.96.0.10';
/** The address 2001:db8::1 of the name that is asked for. */
const IPV6_RECORD = `c00c001c000100000005001020010db8${'0'.repeat(23)}1`;
const NAME = 'kubernetes.default.svc.cluster.local';

function createProbe() {
  const clock = new FakeClock();
  const asked: string[] = [];
  const stop = new AbortController();
  const dns: { code: string | undefined; held: Promise<void> } = { code: undefined, held: Promise.resolve() };
  const lookUp = async (server: string, name: string): Promise<void> => {
    asked.push(`${name} at ${server}`);
    await dns.held;
    if (dns.code !== undefined) throw Object.assign(new Error('failed'), { code: dns.code });
  };
  const probe = new NameLookupProbe({ clock, lookUp }, NAME);
  /** Heartbeats every 5 s for this time. Returns the last result. */
  const watch = async (seconds: number, server: string | undefined = SERVER) => {
    let found = probe.check(server, stop.signal);
    for (let at = 0; at < seconds; at += 5) {
      await clock.advance(5_000);
      found = probe.check(server, stop.signal);
    }
    return found;
  };
  return { probe, asked, dns, stop, clock, watch };
}

describe('NameLookupProbe.check()', () => {
  test('asks every 30 s while the DNS answers, and knows nothing before the first answer', async () => {
    const { probe, asked, stop, watch } = createProbe();
    expect(probe.check(SERVER, stop.signal)).toBeUndefined();
    expect(await watch(85)).toEqual({ failure: undefined });
    expect(asked).toEqual(Array.from({ length: 3 }, () => `${NAME} at ${SERVER}`));
  });

  test('reports a DNS that has failed for a minute, until it answers', async () => {
    const { dns, watch } = createProbe();
    dns.code = 'ETIMEOUT';
    expect(await watch(55)).toEqual({ failure: undefined });
    expect(await watch(10)).toEqual({ failure: `${SERVER} does not answer` });
    dns.code = undefined;
    expect(await watch(15)).toEqual({ failure: undefined });
  });

  test('does not report a DNS that answers now and then', async () => {
    const { dns, watch } = createProbe();
    for (let round = 0; round < 3; round++) {
      dns.code = 'ETIMEOUT';
      expect(await watch(50)).toEqual({ failure: undefined });
      dns.code = undefined;
      expect(await watch(20)).toEqual({ failure: undefined });
    }
  });

  test.each([
    { code: 'ECONNREFUSED', want: 'refuses questions' },
    { code: 'ENOTFOUND', want: 'does not know the API server' },
    { code: 'ESERVFAIL', want: 'answers with an error (ESERVFAIL)' },
  ])('says that the DNS $want', async ({ code, want }) => {
    const { dns, watch } = createProbe();
    dns.code = code;
    expect((await watch(90))?.failure).toContain(want);
  });

  test('asks one question at a time, and waits for none', async () => {
    const { asked, dns, watch } = createProbe();
    dns.held = new Promise(() => undefined);
    expect(await watch(120)).toBeUndefined();
    expect(asked).toHaveLength(1);
  });

  test('asks nothing on a node whose pods have no network, and forgets what was known', async () => {
    const { probe, asked, dns, stop, watch } = createProbe();
    dns.code = 'ETIMEOUT';
    expect(await watch(90)).toMatchObject({ failure: expect.anything() });
    const before = asked.length;
    expect(probe.check(undefined, stop.signal)).toBeUndefined();
    expect(asked).toHaveLength(before);
    expect(await watch(20)).toEqual({ failure: undefined });
  });
});

describe('lookUpName()', () => {
  const sockets: Socket[] = [];
  const asked: string[] = [];
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.close();
    asked.length = 0;
  });

  /** A DNS server that answers each question with this code and, if it is 0, one address. */
  async function startServer(answer: number | undefined, family: 'udp4' | 'udp6' = 'udp4'): Promise<string> {
    const socket = createSocket(family);
    sockets.push(socket);
    socket.on('message', (question, from) => {
      if (answer === undefined) return;
      const header = Buffer.from(question.subarray(0, 12));
      header.writeUInt16BE(0x8180 + answer, 2); // a response, recursion available (RFC 1035 section 4.1.1)
      header.writeUInt16BE(answer === 0 ? 1 : 0, 6);
      header.writeUInt32BE(0, 8);
      const end = question.indexOf(0, 12) + 5;
      const isIpv6 = question[end - 3] === 28; // the type that is asked for: AAAA (RFC 3596)
      const record = Buffer.from(isIpv6 ? IPV6_RECORD : 'c00c00010001000000050004c6130001', 'hex');
      asked.push(isIpv6 ? 'AAAA' : 'A');
      const parts = [header, question.subarray(12, end), ...(answer === 0 ? [record] : [])];
      socket.send(Buffer.concat(parts), from.port, from.address);
    });
    const host = family === 'udp4' ? '127.0.0.1' : '::1';
    socket.bind(0, host);
    await once(socket, 'listening');
    return formatEndpoint(host, socket.address().port);
  }

  test('resolves when the server knows the name', async () => {
    await lookUpName(await startServer(0), NAME, new AbortController().signal);
    expect(asked).toEqual(['A']);
  });

  test('asks a server with an IPv6 address for an IPv6 address', async () => {
    await lookUpName(await startServer(0, 'udp6'), NAME, new AbortController().signal);
    expect(asked).toEqual(['AAAA']);
  });

  test.each([
    { name: 'that does not know the name', answer: 3, code: 'ENOTFOUND' },
    { name: 'that fails', answer: 2, code: 'ESERVFAIL' },
  ])('rejects the answer of a server $name', async ({ answer, code }) => {
    const server = await startServer(answer);
    await expect(lookUpName(server, NAME, new AbortController().signal)).rejects.toMatchObject({ code });
  });

  test('ends at once when it is aborted', async () => {
    const stop = new AbortController();
    const asked = lookUpName(await startServer(undefined), NAME, stop.signal);
    stop.abort();
    await expect(asked).rejects.toMatchObject({ code: 'ECANCELLED' });
  });
});
