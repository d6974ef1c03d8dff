import { describe, expect, test } from '@jest/globals';
import { DEFAULTS } from './defaults.ts';
import { DEFAULT_HARDENING as hardening } from './hardening-schema.ts';
import { nodeSettingsFrom } from './node-settings.ts';

const certificates = {
  nodeMinutes: DEFAULTS.nodeCertificateMinutes,
  kubeletMinutes: DEFAULTS.kubeletCertificateMinutes,
  controlPlaneMinutes: DEFAULTS.controlPlaneCertificateMinutes,
};

const podSecurity = { enforce: 'baseline', exemptNamespaces: [], allowCloudMetadata: false };

describe('nodeSettingsFrom()', () => {
  const cases = [
    { name: 'an empty document has the defaults', given: '', want: { certificates, podSecurity, hardening } },
    {
      name: 'settings that nodes do not use are ignored',
      given: '{"name":"blue","join":{}}',
      want: { certificates, podSecurity, hardening },
    },
    {
      name: 'lifetimes of certificates are read',
      given: '{"certificates":{"controlPlaneMinutes":6}}',
      want: { certificates: { ...certificates, controlPlaneMinutes: 6 }, podSecurity, hardening },
    },
    {
      name: 'lifetimes that only a later version knows are ignored',
      given: '{"certificates":{"controlPlaneMinutes":6,"unheardMinutes":7}}',
      want: { certificates: { ...certificates, controlPlaneMinutes: 6 }, podSecurity, hardening },
    },
    {
      name: 'the Pod Security settings are read',
      given: '{"podSecurity":{"enforce":"restricted","exemptNamespaces":["csi"],"unheard":1}}',
      want: {
        certificates,
        podSecurity: { enforce: 'restricted', exemptNamespaces: ['csi'], allowCloudMetadata: false },
        hardening,
      },
    },
    {
      name: 'one hardening option is turned off',
      given: '{"hardening":{"podPidsLimit":-1,"unheard":1}}',
      want: { certificates, podSecurity, hardening: { ...hardening, podPidsLimit: -1 } },
    },
    {
      name: 'an API endpoint of the operator is read',
      given: '{"apiServer":{"extraSans":[],"endpoint":"api.example.test:6443"}}',
      want: { certificates, podSecurity, hardening, apiEndpoint: 'api.example.test:6443' },
    },
    {
      name: 'an API endpoint with an IPv6 address is read',
      given: '{"apiServer":{"endpoint":"[2001:db8::1]:443"}}',
      want: { certificates, podSecurity, hardening, apiEndpoint: '[2001:db8::1]:443' },
    },
  ];
  test.each(cases)('nodeSettingsFrom(): $name', ({ given, want }) => {
    expect(nodeSettingsFrom(given)).toEqual(want);
  });

  test.each([
    'api.example.test',
    'https://api.example.test:6443',
    'api.example.test:0',
    'api.example.test:65536',
    '2001:db8::1',
    '127.0.0.1:6443',
    'localhost:6443',
    '[::1]:6443',
    '',
  ])('nodeSettingsFrom() refuses the API endpoint %j', (endpoint) => {
    expect(() => nodeSettingsFrom(JSON.stringify({ apiServer: { endpoint } }))).toThrow('an address');
  });

  test.each(['', 'none', 'Baseline', null, 5])(
    'nodeSettingsFrom() refuses the Pod Security level %j',
    (enforce) => {
      expect(() => nodeSettingsFrom(JSON.stringify({ podSecurity: { enforce } }))).toThrow();
    },
  );

  test('nodeSettingsFrom() refuses a lifetime that is too short to renew a certificate in time', () => {
    expect(() => nodeSettingsFrom('{"certificates":{"controlPlaneMinutes":1}}')).toThrow();
  });
});
