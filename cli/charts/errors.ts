import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Error catalog of Helm charts: exit code, meaning and fix by code. */
export const chartErrors = defineErrors({
  'charts-cycle': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'The charts in cluster.yaml depend on each other in a cycle. Nothing was changed.',
    fix: 'Remove one of the `needs` that form the cycle.',
  },
  'charts-unknown': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'cluster.yaml has no chart with this name.',
    fix: 'Use one of the chart names that the error lists.',
  },
  'charts-source-missing': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'A chart was not found at the location given in cluster.yaml.',
    fix: 'Correct `chart` in cluster.yaml; paths are relative to the directory of that file.',
  },
  'charts-source-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'A chart could not be downloaded from its repository or registry.',
    fix: 'Check the address and version of the chart and the proxy settings. Run `helm registry login` if the registry requires it; set `plainHttp: true` for a registry without TLS.',
  },
  'charts-helm-missing': {
    fault: 'operator',
    exit: 'preflight',
    meaning: 'The helm program is neither in the bundle nor on this machine.',
    fix: 'Run `cluster bundle build`, or install helm.',
  },
  'charts-no-ca-bundle': {
    fault: 'operator',
    exit: 'preflight',
    meaning: 'This machine has no CA bundle, so the certificate of a registry cannot be verified.',
    fix: 'Install the package ca-certificates, or set SSL_CERT_FILE to a CA bundle.',
  },
  'charts-invalid': {
    fault: 'operator',
    exit: 'chart',
    meaning: 'A chart cannot be rendered with the configured values; none of it was installed.',
    fix: 'Correct the chart or its `values` where helm reports the error.',
  },
  'charts-timeout': {
    fault: 'system',
    exit: 'chartTimeout',
    retryable: true,
    meaning:
      'The resources of a chart did not become ready in time; the error lists the pods that are not ready.',
    fix: 'Fix the pods that the error lists, or raise `timeoutSeconds` of the chart, then run the same command again.',
  },
  'charts-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'helm failed to install a chart; the error contains the last output of helm.',
    fix: 'Fix the problem that helm reports, then run the same command again.',
  },
});

/** An error about Helm charts, with a code of the catalog. */
export class ChartError extends errorClass(chartErrors) {}
