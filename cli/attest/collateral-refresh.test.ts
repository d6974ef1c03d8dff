import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { TestAmd, TestIntel } from '../../internal/testing/evidence/index.ts';
import { FakeClock, FakeCommands, MemoryFiles } from '../../internal/testing/index.ts';
import { issueCrl, TEST_NOW_MS } from '../../internal/testing/pki/index.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { readCollateral, runCollateralRefresh } from './index.ts';
import { noPassphrases } from '../workspace/fake-passphrases.ts';

const amd = new TestAmd('Milan');
const intel = new TestIntel();
const trust = { amd: amd.trust, intel: intel.trust };
const FMSPC = '90c06f000000';

interface Answer {
  readonly body: Uint8Array | string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The services of AMD and Intel at one address, with the same paths. */
let answers: Map<string, Answer>;
let server: Server;
let url: string;
const asked: string[] = [];

beforeEach(async () => {
  answers = manufacturers();
  asked.length = 0;
  server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const answer = answers.get(request.url ?? '');
    if (answer === undefined) return void response.writeHead(404).end();
    response.writeHead(200, answer.headers).end(answer.body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function pem(...ders: readonly Uint8Array[]): string {
  return ders
    .map((der) => {
      const lines =
        Buffer.from(der)
          .toString('base64')
          .match(/.{1,64}/g) ?? [];
      return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
    })
    .join('');
}

type Signed = ReturnType<TestIntel['tcbInfo']>;
const signedAs = (key: string, { text, signature }: Signed): string =>
  `{"${key}":${text},"signature":"${Buffer.from(signature).toString('hex')}"}`;

function manufacturers(evaluationNumber = 17): Map<string, Answer> {
  const edit = (document: Record<string, unknown>): void => {
    document['tcbEvaluationDataNumber'] = evaluationNumber;
  };
  const chain = (header: string) => ({
    [header]: encodeURIComponent(pem(intel.tcbSigner.der, intel.root.der)),
  });
  const pckChain = {
    'SGX-PCK-CRL-Issuer-Chain': encodeURIComponent(pem(intel.authority.der, intel.root.der)),
  };
  const pckCrl = { body: issueCrl({ issuer: intel.authority }), headers: pckChain };
  return new Map<string, Answer>([
    ['/vcek/v1/Milan/cert_chain', { body: pem(amd.ask.der, amd.ark.der) }],
    ['/vcek/v1/Milan/crl', { body: issueCrl({ issuer: amd.ark }) }],
    [
      `/tdx/certification/v4/tcb?fmspc=${FMSPC}`,
      { body: signedAs('tcbInfo', intel.tcbInfo(edit)), headers: chain('TCB-Info-Issuer-Chain') },
    ],
    [
      '/tdx/certification/v4/qe/identity',
      {
        body: signedAs('enclaveIdentity', intel.qeIdentity(edit)),
        headers: chain('SGX-Enclave-Identity-Issuer-Chain'),
      },
    ],
    ['/sgx/certification/v4/pckcrl?ca=platform&encoding=der', pckCrl],
    ['/sgx/certification/v4/pckcrl?ca=processor&encoding=der', pckCrl],
    ['/IntelSGXRootCA.der', { body: issueCrl({ issuer: intel.root }) }],
  ]);
}

const files = { current: new MemoryFiles() };
beforeEach(() => void (files.current = new MemoryFiles()));

async function refresh(wanted: { fmspc?: string[]; product?: string[] } = {}) {
  const host = new RecordingHost();
  const context = {
    host,
    ports: { files: files.current, commands: new FakeCommands(), clock: new FakeClock(TEST_NOW_MS) },
    paths: { cache: '/c', data: '/d', config: '/f', workspace: '/w' },
    passphrases: noPassphrases,
    env: {},
    signal: new AbortController().signal,
  };
  const services = { amdKds: url, intelPcs: url, intelCertificates: url };
  const { fmspc = [FMSPC], product = ['Milan'] } = wanted;
  await runCollateralRefresh(context, { fmspc, product, services }, trust);
  return host;
}

const stored = () => readCollateral(files.current, '/w');

describe('attest collateral refresh', () => {
  test('saves the verified documents of both manufacturers and shows their ages', async () => {
    const host = await refresh();
    const { snp, tdx } = (await stored()).forValidators;
    expect(snp?.crls).toHaveLength(1);
    expect(tdx).toMatchObject({ seenEvaluationNumber: 17 });
    expect([tdx?.tcbInfos.length, tdx?.qeIdentities.length, tdx?.crls.length]).toEqual([1, 1, 2]);
    expect(asked).toHaveLength(7);
    const { documents } = host.answered as { documents: { what: string; ageDays: number }[] };
    expect(documents.find(({ what }) => what.startsWith('TCB info'))).toMatchObject({ ageDays: 1 });
  });

  test('fetches only the requested documents', async () => {
    await refresh({ fmspc: [] });
    expect(asked).toEqual(['/vcek/v1/Milan/cert_chain', '/vcek/v1/Milan/crl']);
  });

  test('refuses documents with an older evaluation number', async () => {
    answers = manufacturers(18);
    await refresh();
    answers = manufacturers(17);
    await expect(refresh()).rejects.toMatchObject({ code: 'tdx-evaluation-number' });
    const { evaluationNumber, forValidators } = await stored();
    const { tdx } = forValidators;
    expect(tdx?.tcbInfos[0]?.text).toContain('"tcbEvaluationDataNumber":18');
    expect(evaluationNumber).toBe(18);
  });

  test('refuses an older CRL that has not expired', async () => {
    await refresh();
    const older = issueCrl({ issuer: amd.ark, thisUpdateMs: TEST_NOW_MS - 9 * 86_400_000 });
    answers.set('/vcek/v1/Milan/crl', { body: older });
    await expect(refresh()).rejects.toMatchObject({ code: 'collateral-older' });
  });

  const forger = new TestIntel();
  test.each([
    {
      name: 'a TCB info signed by another key',
      code: 'tdx-collateral-signature',
      change: () =>
        answers.set(`/tdx/certification/v4/tcb?fmspc=${FMSPC}`, {
          ...answers.get(`/tdx/certification/v4/tcb?fmspc=${FMSPC}`)!,
          body: signedAs('tcbInfo', forger.tcbInfo()),
        }),
    },
    {
      name: 'a CRL of another root with the same name',
      code: 'x509-signature',
      change: () =>
        answers.set('/vcek/v1/Milan/crl', { body: issueCrl({ issuer: new TestAmd('Milan').ark }) }),
    },
    {
      name: 'a missing document',
      code: 'attest-collateral-unreachable',
      change: () => answers.delete('/IntelSGXRootCA.der'),
    },
    {
      name: 'a response without the certificate chain',
      code: 'attest-collateral-unreachable',
      change: () =>
        answers.set('/tdx/certification/v4/qe/identity', {
          body: signedAs('enclaveIdentity', intel.qeIdentity()),
        }),
    },
    {
      name: 'an endless response',
      code: 'attest-collateral-unreachable',
      change: () => answers.set('/vcek/v1/Milan/crl', { body: new Uint8Array(2 << 20) }),
    },
    {
      name: 'an HTML page of a proxy',
      code: 'collateral-malformed',
      change: () => answers.set('/vcek/v1/Milan/crl', { body: '<html>blocked</html>' }),
    },
  ])('refuses $name, and keeps the saved documents', async ({ code, change }) => {
    await refresh();
    const before = await stored();
    change();
    await expect(refresh()).rejects.toMatchObject({ code });
    expect(await stored()).toEqual(before);
  });

  test.each([
    { name: 'an FMSPC of the wrong length', wanted: { fmspc: ['90c0'] } },
    { name: 'an unknown product', wanted: { product: ['Naples'] } },
    { name: 'a call without product and FMSPC', wanted: { fmspc: [], product: [] } },
  ])('refuses $name before any request', async ({ wanted }) => {
    await expect(refresh(wanted)).rejects.toMatchObject({ code: 'attest-option' });
    expect(asked).toEqual([]);
  });
});

describe('readCollateral()', () => {
  test('is empty before the first refresh', async () => {
    expect((await stored()).forValidators).toEqual({});
  });

  test('refuses a damaged record of the highest evaluation number', async () => {
    await refresh();
    await files.current.writeAtomic('/w/collateral/seen.json', '{"version":1,"evaluationNumber":-1}');
    await expect(stored()).rejects.toMatchObject({ code: 'attest-collateral-store' });
  });
});
