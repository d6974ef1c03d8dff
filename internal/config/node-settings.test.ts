import { describe, expect, test } from '@jest/globals';
import { DEFAULTS } from './defaults.ts';
import { nodeSettingsFrom } from './node-settings.ts';

const certificates = {
  nodeMinutes: DEFAULTS.nodeCertificateMinutes,
  kubeletMinutes: DEFAULTS.kubeletCertificateMinutes,
  controlPlaneMinutes: DEFAULTS.controlPlaneCertificateMinutes,
};

const podSecurity = { enforce: 'baseline', exemptNamespaces: [], allowCloudMetadata: false };

describe('nodeSettingsFrom()', () => {
  const cases = [
    { name: 'nothing has the defaults', given: '', want: { certificates, podSecurity } },
    {
      name: 'what is not of nodes is left alone',
      given: '{"name":"blue","join":{}}',
      want: { certificates, podSecurity },
    },
    {
      name: 'lifetimes that are said',
      given: '{"certificates":{"controlPlaneMinutes":6}}',
      want: { certificates: { ...certificates, controlPlaneMinutes: 6 }, podSecurity },
    },
    {
      name: 'lifetimes of a later version are left alone',
      given: '{"certificates":{"controlPlaneMinutes":6,"unheardMinutes":7}}',
      want: { certificates: { ...certificates, controlPlaneMinutes: 6 }, podSecurity },
    },
    {
      name: 'what pods may ask of machines',
      given: '{"podSecurity":{"enforce":"restricted","exemptNamespaces":["csi"],"unheard":1}}',
      want: {
        certificates,
        podSecurity: { enforce: 'restricted', exemptNamespaces: ['csi'], allowCloudMetadata: false },
      },
    },
    {
      name: 'an endpoint of the operator’s own',
      given: '{"apiServer":{"extraSans":[],"endpoint":"api.example.test:6443"}}',
      want: { certificates, podSecurity, apiEndpoint: 'api.example.test:6443' },
    },
    {
      name: 'an endpoint of IPv6',
      given: '{"apiServer":{"endpoint":"[2001:db8::1]:443"}}',
      want: { certificates, podSecurity, apiEndpoint: '[2001:db8::1]:443' },
    },
  ];
  test.each(cases)('$name', ({ given, want }) => {
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
  ])('the endpoint %j is refused', (endpoint) => {
    expect(() => nodeSettingsFrom(JSON.stringify({ apiServer: { endpoint } }))).toThrow('an address');
  });

  test.each(['', 'none', 'Baseline', null, 5])('the Pod Security level %j is refused', (enforce) => {
    expect(() => nodeSettingsFrom(JSON.stringify({ podSecurity: { enforce } }))).toThrow();
  });

  test('a lifetime that nobody could renew in time is refused', () => {
    expect(() => nodeSettingsFrom('{"certificates":{"controlPlaneMinutes":1}}')).toThrow();
  });
});
