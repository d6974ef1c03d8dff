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
    {
      name: 'returns the defaults for an empty document',
      given: '',
      want: { certificates, podSecurity, hardening },
    },
    {
      name: 'ignores settings that nodes do not use',
      given: '{"name":"blue","join":{}}',
      want: { certificates, podSecurity, hardening },
    },
    {
      name: 'reads lifetimes of certificates',
      given: '{"certificates":{"controlPlaneMinutes":6}}',
      want: { certificates: { ...certificates, controlPlaneMinutes: 6 }, podSecurity, hardening },
    },
    {
      name: 'ignores certificate lifetimes that only a later version knows',
      given: '{"certificates":{"controlPlaneMinutes":6,"unheardMinutes":7}}',
      want: { certificates: { ...certificates, controlPlaneMinutes: 6 }, podSecurity, hardening },
    },
    {
      name: 'reads the Pod Security settings',
      given: '{"podSecurity":{"enforce":"restricted","exemptNamespaces":["csi"],"unheard":1}}',
      want: {
        certificates,
        podSecurity: { enforce: 'restricted', exemptNamespaces: ['csi'], allowCloudMetadata: false },
        hardening,
      },
    },
    {
      name: 'reads that one hardening option is turned off',
      given: '{"hardening":{"podPidsLimit":-1,"unheard":1}}',
      want: { certificates, podSecurity, hardening: { ...hardening, podPidsLimit: -1 } },
    },
    {
      name: 'reads an API endpoint of the operator',
      given: '{"apiServer":{"extraSans":[],"endpoint":"api.example.test:6443"}}',
      want: { certificates, podSecurity, hardening, apiEndpoint: 'api.example.test:6443' },
    },
    {
      name: 'reads the backend of the pod network, unless it is VXLAN',
      given: '{"networking":{"podSubnet":"10.244.0.0/16","backend":"wireguard"}}',
      want: { certificates, podSecurity, hardening, networkBackend: 'wireguard' },
    },
    {
      name: 'has no backend of the pod network for VXLAN',
      given: '{"networking":{"backend":"vxlan"}}',
      want: { certificates, podSecurity, hardening },
    },
    {
      name: 'reads an API endpoint with an IPv6 address',
      given: '{"apiServer":{"endpoint":"[2001:db8::1]:443"}}',
      want: { certificates, podSecurity, hardening, apiEndpoint: '[2001:db8::1]:443' },
    },
  ];
  test.each(cases)('nodeSettingsFrom() $name', ({ given, want }) => {
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
