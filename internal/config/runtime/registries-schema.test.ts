import { beforeAll, expect, test } from '@jest/globals';
import { createCaCertPem, generateKeyPem } from '../../pki/index.ts';
import { verifyConfigurationChange } from '../cluster-part.ts';
import { parseWrittenConfig } from '../cluster-config.ts';
import { ConfigError } from '../errors.ts';
import type { Problem } from '../parse-located.ts';
import { serversWithCredentials } from './registries-schema.ts';

const YAML = `version: 1
name: prod
attestation: { variants: [machine-key], firstContact: fingerprint }
`;
let caPem: string;
beforeAll(async () => {
  caPem = await createCaCertPem({ commonName: 'ca', keyPem: generateKeyPem(), nowMs: Date.UTC(2026, 0, 1) });
});

const indented = (pem: string): string => pem.trim().replaceAll(/^/gm, '      ');

function registriesOf(section: string) {
  return parseWrittenConfig(YAML + section, 'cluster.yaml').registries;
}

function problemsOf(section: string): readonly Problem[] {
  try {
    registriesOf(section);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.details['problems'] as readonly Problem[];
  }
}

test('registriesSchema accepts mirrors, a private CA and credentials; serversWithCredentials() returns each server once', () => {
  const registries = registriesOf(`registries:
  - name: docker.io
    fallback: false
    mirrors:
      - url: https://mirror.example.org:5000/v2/hub
        credentials: true
      - url: http://192.0.2.7:5000
      - url: http://[2001:db8::7]:5000
  - name: registry.example.org:5001
    credentials: true
    mirrors: [{ url: "https://mirror.example.org:5000", credentials: true }]
    ca: |
${indented(caPem)}
  - name: quay.io
`);
  expect(registries[1]?.ca?.trim()).toBe(caPem.trim());
  expect(registries[2]).toEqual({ name: 'quay.io', mirrors: [], fallback: true, credentials: false });
  expect(serversWithCredentials(registries)).toEqual([
    'mirror.example.org:5000',
    'registry.example.org:5001',
  ]);
  expect(
    serversWithCredentials(registriesOf('registries: [{ name: docker.io, credentials: true }]')),
  ).toEqual(['registry-1.docker.io']);
});

const refusals = [
  { name: 'a path in a registry name', given: '{ name: docker.io/library }', at: 'name', column: 22 },
  { name: 'the parent directory as a registry name', given: '{ name: .. }', at: 'name', column: 22 },
  {
    name: 'a registry name that containerd uses for all registries',
    given: '{ name: _default }',
    at: 'name',
    column: 22,
  },
  { name: 'a capital letter in a registry name', given: '{ name: Docker.io }', at: 'name', column: 22 },
  { name: 'an alias of docker.io', given: '{ name: index.docker.io }', at: 'name', column: 22 },
  { name: 'an unknown key', given: '{ name: a, skipVerify: true }', at: 'skipVerify', column: 25 },
  {
    name: 'a registry without a mirror and without fallback',
    given: '{ name: a, fallback: false }',
    at: 'fallback',
    column: 35,
  },
  {
    name: 'credentials for a registry from which nodes never pull',
    given: '{ name: a, credentials: true, fallback: false, mirrors: [{ url: "https://m" }] }',
    at: 'credentials',
    column: 38,
  },
  {
    name: 'a password in a mirror URL',
    given: '{ name: a, mirrors: [{ url: "https://u:p@m" }] }',
    at: 'mirrors.0.url',
    column: 42,
  },
  {
    name: 'a quotation mark in a mirror URL',
    given: `{ name: a, mirrors: [{ url: 'https://m/"' }] }`,
    at: 'mirrors.0.url',
    column: 42,
  },
  {
    name: 'a query in a mirror URL',
    given: '{ name: a, mirrors: [{ url: "https://m/?a" }] }',
    at: 'mirrors.0.url',
    column: 42,
  },
  {
    name: 'a mirror URL with an unsupported scheme',
    given: '{ name: a, mirrors: [{ url: "ftp://m" }] }',
    at: 'mirrors.0.url',
    column: 42,
  },
  {
    name: 'a mirror at text in brackets that is no IPv6 address',
    given: '{ name: a, mirrors: [{ url: "https://[1:2]" }] }',
    at: 'mirrors.0.url',
    column: 42,
  },
  {
    name: 'credentials over HTTP',
    given: '{ name: a, mirrors: [{ url: "http://m", credentials: true }] }',
    at: 'mirrors.0.credentials',
    column: 67,
  },
  {
    name: 'the same mirror twice',
    given: '{ name: a, mirrors: [{ url: "https://m" }, { url: "https://m" }] }',
    at: 'mirrors.1.url',
    column: 64,
  },
  { name: 'a CA that is no PEM', given: '{ name: a, ca: MIIB }', at: 'ca', column: 29 },
];
test.each(refusals)(
  'registriesSchema refuses $name, and reports line and column',
  ({ given, at, column }) => {
    expect(problemsOf(`registries: [${given}]\n`)).toEqual([
      expect.objectContaining({ path: `registries.0.${at}`, line: 4, column }),
    ]);
  },
);

test('registriesSchema refuses a CA text that contains a private key, and a repeated registry name', () => {
  const withKey = `${caPem}${generateKeyPem().reveal()}`;
  expect(problemsOf(`registries:\n  - name: a\n    ca: |\n${indented(withKey)}\n`)).toEqual([
    expect.objectContaining({ path: 'registries.0.ca', line: 6 }),
  ]);
  expect(problemsOf('registries: [{ name: a }, { name: a }]\n')).toEqual([
    expect.objectContaining({ path: 'registries.1.name', line: 4 }),
  ]);
});

test('verifyConfigurationChange() accepts a change of the registries', () => {
  expect(verifyConfigurationChange(YAML, `${YAML}registries: [{ name: a }]`)).toEqual([['registries']]);
});
