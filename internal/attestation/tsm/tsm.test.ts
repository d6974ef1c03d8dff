import { afterEach, describe, expect, test } from '@jest/globals';
import { FakeClock, FakeTsm, settle, type FakeTsmOptions } from '../../testing/index.ts';
import { decodeSnpEvidence, SnpIssuer } from '../snp/index.ts';
import { decodeTdxEvidence, TdxIssuer } from '../tdx/index.ts';
import { requestTsmReport } from './index.ts';

const BINDING = new Uint8Array(64).fill(7);
const never = new AbortController().signal;

let kernel: FakeTsm;
let clock: FakeClock;

function boot(provider: FakeTsmOptions['provider'] = 'sev_guest', auxblob?: Uint8Array): void {
  clock = new FakeClock();
  kernel = new FakeTsm({
    provider,
    makeReport: (inblob) => ({
      outblob: Buffer.concat([Buffer.from('report'), inblob]),
      ...(auxblob && { auxblob }),
    }),
  });
}

const ask = (provider: 'sev_guest' | 'tdx_guest' = 'sev_guest', inblob = BINDING, signal = never) =>
  requestTsmReport({ files: kernel, clock }, { provider, inblob, signal });

afterEach(() => {
  expect(kernel.open).toBe(0);
  expect(clock.sleeping).toBe(0);
});

describe('a request for a report', () => {
  test('carries the binding and brings what the host adds', async () => {
    boot('sev_guest', Uint8Array.of(1, 2));
    await expect(ask()).resolves.toEqual({
      outblob: Buffer.concat([Buffer.from('report'), BINDING]),
      auxblob: Uint8Array.of(1, 2),
    });
  });

  test('does without an auxiliary blob where the provider has none', async () => {
    boot('tdx_guest');
    await expect(ask('tdx_guest')).resolves.toMatchObject({ auxblob: new Uint8Array() });
  });

  test('waits and asks again while the host is busy', async () => {
    boot();
    kernel.busyReads = 3;
    const report = ask();
    await clock.advance(1000);
    await expect(report).resolves.toMatchObject({ auxblob: new Uint8Array() });
    expect(kernel.busyReads).toBe(0);
  });

  test('gives up when the host stays busy', async () => {
    boot();
    kernel.busyReads = 100;
    const report = expect(ask()).rejects.toMatchObject({ code: 'tsm-busy', retryable: true });
    await clock.advance(60_000);
    await report;
  });

  test('ends with its signal', async () => {
    boot();
    kernel.busyReads = 100;
    const abort = new AbortController();
    const report = expect(ask('sev_guest', BINDING, abort.signal)).rejects.toThrow('enough');
    await settle();
    abort.abort(new Error('enough'));
    await report;
  });

  test('throws a report away that somebody else wrote to', async () => {
    boot();
    kernel.onBeforeReport = (entry) => {
      kernel.onBeforeReport = () => undefined;
      void kernel.writeAttribute(`${entry}/inblob`, new Uint8Array(64));
    };
    await expect(ask()).rejects.toMatchObject({ code: 'tsm-refused' });
  });

  test.each([
    {
      name: 'where no provider has registered',
      provider: undefined,
      asked: 'sev_guest',
      want: 'tsm-unavailable',
    },
    { name: 'of another kind of machine', provider: 'tdx_guest', asked: 'sev_guest', want: 'tsm-provider' },
  ] as const)('$name is refused', async ({ provider, asked, want }) => {
    clock = new FakeClock();
    kernel = new FakeTsm({ provider, makeReport: () => ({ outblob: new Uint8Array() }) });
    await expect(ask(asked)).rejects.toMatchObject({ code: want });
  });

  test.each([0, 63, 65])('with %i bytes in place of 64 is refused by the kernel', async (length) => {
    boot();
    await expect(ask('sev_guest', new Uint8Array(length))).rejects.toMatchObject({ code: 'tsm-refused' });
  });
});

describe('an issuer', () => {
  test('of SNP sends the report with the certificates of the host, without their table', async () => {
    const certificate = Uint8Array.of(0x30, 0x01, 0x00);
    const table = Buffer.alloc(48 + certificate.length);
    table.fill(0xaa, 0, 16);
    table.writeUInt32LE(48, 16);
    table.writeUInt32LE(certificate.length, 20);
    table.set(certificate, 48);
    boot('sev_guest', table);
    const evidence = await new SnpIssuer({ files: kernel, clock }).issue(BINDING, never);
    expect(decodeSnpEvidence(evidence)).toEqual({
      report: new Uint8Array(Buffer.concat([Buffer.from('report'), BINDING])),
      certificates: [certificate],
    });
  });

  test('of TDX sends the quote, and no log where the kernel shows none', async () => {
    boot('tdx_guest');
    const evidence = await new TdxIssuer({ files: kernel, clock }).issue(BINDING, never);
    expect(decodeTdxEvidence(evidence)).toEqual({
      quote: new Uint8Array(Buffer.concat([Buffer.from('report'), BINDING])),
      eventLog: undefined,
    });
  });

  test('of TDX sends the log without its padding', async () => {
    boot('tdx_guest');
    const files = {
      makeDirectory: (path: string) => kernel.makeDirectory(path),
      removeDirectory: (path: string) => kernel.removeDirectory(path),
      writeAttribute: (path: string, data: Uint8Array) => kernel.writeAttribute(path, data),
      readAttribute: (path: string, maxBytes: number) =>
        path.endsWith('/CCEL')
          ? Promise.resolve(Uint8Array.of(1, 0xff, 2, 0xff, 0xff))
          : kernel.readAttribute(path, maxBytes),
    };
    const evidence = await new TdxIssuer({ files, clock }).issue(BINDING, never);
    expect(decodeTdxEvidence(evidence).eventLog).toEqual(Uint8Array.of(1, 0xff, 2));
  });

  test.each([SnpIssuer, TdxIssuer])('never asks for a report with a short binding (%p)', async (Issuer) => {
    boot();
    await expect(new Issuer({ files: kernel, clock }).issue(new Uint8Array(63), never)).rejects.toMatchObject(
      { code: 'attestation-binding-length' },
    );
  });
});
