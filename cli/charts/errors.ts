import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const chartErrors = defineErrors({
  'charts-cycle': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'Charts of the configuration need one another in a circle. Nothing was changed.',
    fix: 'Remove one of the `needs` on the path in the message.',
  },
  'charts-unknown': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'There is no chart of this name in the configuration.',
    fix: 'Use one of the names in the message.',
  },
  'charts-source-missing': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'A chart is not where the configuration says.',
    fix: 'Correct `chart` in cluster.yaml; relative paths start at the directory of that file.',
  },
  'charts-source-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'A chart could not be fetched from its repository or registry.',
    fix: 'Check address and version of the chart, proxies, `helm registry login` for registries that ask who you are, and `plainHttp: true` for one without TLS.',
  },
  'charts-helm-missing': {
    fault: 'operator',
    exit: 'preflight',
    retryable: false,
    meaning: 'Charts are installed with helm, which is neither in the bundle nor on this machine.',
    fix: 'Run `cluster bundle build`, or install helm.',
  },
  'charts-no-ca-bundle': {
    fault: 'operator',
    exit: 'preflight',
    retryable: false,
    meaning: 'This machine has no list of certificate authorities, so no registry can prove who it is.',
    fix: 'Install ca-certificates, or name a file of authorities in SSL_CERT_FILE.',
  },
  'charts-invalid': {
    fault: 'operator',
    exit: 'chart',
    retryable: false,
    meaning: 'A chart cannot be rendered with the given values; nothing of it was installed.',
    fix: 'Correct the chart or its `values`; the place is in the message.',
  },
  'charts-timeout': {
    fault: 'system',
    exit: 'chartTimeout',
    retryable: true,
    meaning: 'What a chart made did not become ready in time; the message says which pods are not and why.',
    fix: 'Remove the cause named in the message, or give the chart a longer `timeoutSeconds`; the same command goes on from there.',
  },
  'charts-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'helm failed to install a chart; its last words are in the message.',
    fix: 'Remove the cause named in the message; the same command goes on from there.',
  },
});

export type ChartErrorCode = keyof typeof chartErrors;

export class ChartError extends errorClass(chartErrors) {}
