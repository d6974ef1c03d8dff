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

describe('requestTsmReport()', () => {
  test('passes the binding to the kernel and returns the host’s data with the report', async () => {
    boot('sev_guest', Uint8Array.of(1, 2));
    await expect(ask()).resolves.toEqual({
      outblob: Buffer.concat([Buffer.from('report'), BINDING]),
      auxblob: Uint8Array.of(1, 2),
    });
  });

  test('returns no auxiliary blob if the provider has none', async () => {
    boot('tdx_guest');
    await expect(ask('tdx_guest')).resolves.toMatchObject({ auxblob: new Uint8Array() });
  });

  test('waits and retries while the host is busy', async () => {
    boot();
    kernel.busyReads = 3;
    const report = ask();
    await clock.advance(1000);
    await expect(report).resolves.toMatchObject({ auxblob: new Uint8Array() });
    expect(kernel.busyReads).toBe(0);
  });

  test('fails when the host stays busy', async () => {
    boot();
    kernel.busyReads = 100;
    const report = expect(ask()).rejects.toMatchObject({ code: 'tsm-busy', retryable: true });
    await clock.advance(60_000);
    await report;
  });

  test('stops waiting when its signal fires', async () => {
    boot();
    kernel.busyReads = 100;
    const abort = new AbortController();
    const report = expect(ask('sev_guest', BINDING, abort.signal)).rejects.toThrow('enough');
    await settle();
    abort.abort(new Error('enough'));
    await report;
  });

  test('discards a report when another process wrote to its directory', async () => {
    boot();
    kernel.onBeforeReport = (entry) => {
      kernel.onBeforeReport = () => undefined;
      void kernel.writeAttribute(`${entry}/inblob`, new Uint8Array(64));
    };
    await expect(ask()).rejects.toMatchObject({ code: 'tsm-refused' });
  });

  test.each([
    {
      name: 'a request without a registered provider',
      provider: undefined,
      asked: 'sev_guest',
      want: 'tsm-unavailable',
    },
    {
      name: 'a request for another provider than the kernel’s',
      provider: 'tdx_guest',
      asked: 'sev_guest',
      want: 'tsm-provider',
    },
  ] as const)('refuses $name', async ({ provider, asked, want }) => {
    clock = new FakeClock();
    kernel = new FakeTsm({ provider, makeReport: () => ({ outblob: new Uint8Array() }) });
    await expect(ask(asked)).rejects.toMatchObject({ code: want });
  });

  test.each([0, 63, 65])('fails if the binding has %i bytes instead of 64', async (length) => {
    boot();
    await expect(ask('sev_guest', new Uint8Array(length))).rejects.toMatchObject({ code: 'tsm-refused' });
  });
});

describe('issuers of confidential machines', () => {
  test('SnpIssuer sends the report with the host’s certificates, without the certificate table', async () => {
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

  test('TdxIssuer sends the quote without an event log if the kernel provides none', async () => {
    boot('tdx_guest');
    const evidence = await new TdxIssuer({ files: kernel, clock }).issue(BINDING, never);
    expect(decodeTdxEvidence(evidence)).toEqual({
      quote: new Uint8Array(Buffer.concat([Buffer.from('report'), BINDING])),
      eventLog: undefined,
    });
  });

  test('TdxIssuer removes the padding from the event log', async () => {
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

  test.each([SnpIssuer, TdxIssuer])(
    '%p requests no report if the binding has fewer than 64 bytes',
    async (Issuer) => {
      boot();
      await expect(
        new Issuer({ files: kernel, clock }).issue(new Uint8Array(63), never),
      ).rejects.toMatchObject({ code: 'attestation-binding-length' });
    },
  );
});
