import { expect, test } from '@jest/globals';
import { parseWrittenConfig } from '../cluster-config.ts';
import { verifyConfigurationChange } from '../cluster-part.ts';
import { ConfigError } from '../errors.ts';
import type { Problem } from '../parse-located.ts';

const YAML = `version: 1
name: prod
attestation: { variants: [machine-key], firstContact: fingerprint }
`;

const authenticationOf = (section: string) =>
  parseWrittenConfig(YAML + section, 'cluster.yaml').authentication;

function problemsOf(issuers: string): readonly Problem[] {
  try {
    authenticationOf(`authentication: { issuers: [${issuers}] }\n`);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.details['problems'] as readonly Problem[];
  }
}

test('authenticationSchema accepts several issuers with different prefixes, and fills in the defaults of an issuer', () => {
  const { issuers } = authenticationOf(`authentication:
  issuers:
    - { url: "https://login.example.org/realms/a", audiences: [kubernetes, cli] }
    - url: https://accounts.example.com
      audiences: [kubernetes]
      discoveryUrl: https://10.0.0.7/.well-known/openid-configuration
      usernameClaim: email
      usernamePrefix: "partner:"
      groupsClaim: groups
      groupsPrefix: ""
      requiredClaims: { hd: example.com }
`);
  expect(issuers[0]).toEqual({
    url: 'https://login.example.org/realms/a',
    audiences: ['kubernetes', 'cli'],
    usernameClaim: 'sub',
    usernamePrefix: 'oidc:',
    groupsPrefix: 'oidc:',
    requiredClaims: {},
  });
  expect(issuers[1]).toMatchObject({ usernamePrefix: 'partner:', groupsPrefix: '' });
});

const ONE = 'url: "https://i", audiences: [a]';
const refusals = [
  { name: 'an issuer without TLS', given: '{ url: "http://i", audiences: [a] }', at: '0.url', column: 36 },
  { name: 'a URL with a query', given: '{ url: "https://i?a", audiences: [a] }', at: '0.url', column: 36 },
  {
    name: 'a URL with a password',
    given: '{ url: "https://u:p@i", audiences: [a] }',
    at: '0.url',
    column: 36,
  },
  {
    name: 'the issuer of pod tokens',
    given: '{ url: "https://kubernetes.default.svc.cluster.local", audiences: [a] }',
    at: '0.url',
    column: 36,
  },
  {
    name: 'an empty list of audiences',
    given: '{ url: "https://i", audiences: [] }',
    at: '0.audiences',
    column: 60,
  },
  {
    name: 'the same audience twice',
    given: '{ url: "https://i", audiences: [a, a] }',
    at: '0.audiences.1',
    column: 64,
  },
  {
    name: 'a discovery URL that equals the issuer URL',
    given: `{ ${ONE}, discoveryUrl: "https://i/" }`,
    at: '0.discoveryUrl',
    column: 79,
  },
  {
    name: 'the user name prefix of Kubernetes',
    given: `{ ${ONE}, usernamePrefix: "system:" }`,
    at: '0.usernamePrefix',
    column: 81,
  },
  {
    name: 'the user name prefix of nodes',
    given: `{ ${ONE}, usernamePrefix: "system:node:" }`,
    at: '0.usernamePrefix',
    column: 81,
  },
  {
    name: 'the group prefix of administrators',
    given: `{ ${ONE}, groupsPrefix: "kubeadm:" }`,
    at: '0.groupsPrefix',
    column: 79,
  },
  {
    name: 'the group prefix of operators',
    given: `{ ${ONE}, groupsPrefix: "cluster:" }`,
    at: '0.groupsPrefix',
    column: 79,
  },
  {
    name: 'a prefix that a claim could complete to a reserved prefix',
    given: `{ ${ONE}, groupsPrefix: "sys" }`,
    at: '0.groupsPrefix',
    column: 79,
  },
  {
    name: 'the same issuer twice',
    given: `{ ${ONE}, usernamePrefix: "a:" }, { ${ONE} }`,
    at: '1.url',
    column: 96,
  },
  {
    name: 'two issuers whose users would have the same names',
    given: `{ ${ONE} }, { url: "https://j", audiences: [a], usernamePrefix: "oidc:j:" }`,
    at: '1.usernamePrefix',
    column: 119,
  },
  {
    name: 'an issuer without prefix beside an issuer with a prefix',
    given: `{ ${ONE} }, { url: "https://j", audiences: [a], usernamePrefix: "" }`,
    at: '1.usernamePrefix',
    column: 119,
  },
  { name: 'a CA that is no PEM', given: `{ ${ONE}, ca: MIIB }`, at: '0.ca', column: 69 },
  { name: 'an unknown key', given: `{ ${ONE}, clientSecret: x }`, at: '0.clientSecret', column: 65 },
];
test.each(refusals)(
  'authenticationSchema refuses $name, and reports line and column',
  ({ given, at, column }) => {
    expect(problemsOf(given)).toEqual([
      expect.objectContaining({ path: `authentication.issuers.${at}`, line: 4, column }),
    ]);
  },
);

test('verifyConfigurationChange() accepts a change of the issuers', () => {
  const next = `${YAML}authentication: { issuers: [{ ${ONE} }] }`;
  expect(verifyConfigurationChange(YAML, next)).toEqual([['authentication']]);
});
