import { expect, test } from '@jest/globals';
import { helmEnvironment } from './helm-environment.ts';

test('helm gets the variables that helm uses from the environment of the operator, and no other variables', () => {
  const env = { HOME: '/root', HELM_DEBUG: '1', SECRET: 'x', UNSET: undefined };
  expect(helmEnvironment(env, {}, '192.0.2.1')).toEqual({ HOME: '/root', HELM_DEBUG: '1' });
});

test('helm works on the cluster of the workspace and stores releases in Secrets, whatever the environment of the operator says', () => {
  const other = { HELM_KUBEAPISERVER: 'https://192.0.2.9', HELM_KUBECONTEXT: 'other', HELM_KUBETOKEN: 'x' };
  const env = { ...other, HELM_DRIVER: 'configmap', HELM_NAMESPACE: 'shop', HELM_CACHE_HOME: '/cache' };
  expect(helmEnvironment(env, {}, '192.0.2.1')).toEqual({ HELM_CACHE_HOME: '/cache' });
});

test('helm reaches the API server without the proxy of the operator', () => {
  const env = { https_proxy: 'http://own:1', no_proxy: '.example.org' };
  expect(helmEnvironment(env, {}, '192.0.2.1')).toEqual({ ...env, NO_PROXY: '.example.org,192.0.2.1' });
});

test('the proxy of the cluster replaces that of the operator', () => {
  const env = { HTTPS_PROXY: 'http://own:1', http_proxy: 'http://own:1', no_proxy: 'own' };
  const proxy = { HTTPS_PROXY: 'http://proxy.example.org:3128', NO_PROXY: 'localhost' };
  expect(helmEnvironment(env, proxy, '192.0.2.1')).toEqual({ ...proxy, NO_PROXY: 'localhost,192.0.2.1' });
});
