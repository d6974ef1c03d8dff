import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Error catalog of Helm charts: exit code, meaning and fix by code. */
export const chartErrors = defineErrors({
  'charts-cycle': fault.operator.usage(
    'The charts in cluster.yaml depend on each other in a cycle. Nothing was changed.',
    'Remove one of the `needs` that form the cycle.',
  ),
  'charts-unknown': fault.operator.usage(
    'cluster.yaml has no chart with this name.',
    'Use one of the chart names that the error lists.',
  ),
  'charts-source-missing': fault.operator.usage(
    'A chart was not found at the location given in cluster.yaml.',
    'Correct `chart` in cluster.yaml; paths are relative to the directory of that file.',
  ),
  'charts-source-unreachable': retryable.peer.unreachable(
    'A chart could not be downloaded from its repository or registry.',
    'Check the address and version of the chart and the proxy settings. Run `helm registry login` if the registry requires it; set `plainHttp: true` for a registry without TLS.',
  ),
  'charts-helm-missing': fault.operator.preflight(
    'The helm program is neither in the bundle nor on this machine.',
    'Run `cluster bundle build`, or install helm.',
  ),
  'charts-no-ca-bundle': fault.operator.preflight(
    'This machine has no CA bundle, so the certificate of a registry cannot be verified.',
    'Install the package ca-certificates, or set SSL_CERT_FILE to a CA bundle.',
  ),
  'charts-invalid': fault.operator.chart(
    'A chart cannot be rendered with the configured values; none of it was installed.',
    'Correct the chart or its `values` where helm reports the error.',
  ),
  'charts-backend-fixed': fault.operator.precondition(
    '`networking.backend` in cluster.yaml is another one than that with which the network of pods runs. It cannot change after the init: nodes would change one by one, and pods on nodes with VXLAN and on nodes with WireGuard do not reach each other. Nothing was changed.',
    'Set `networking.backend` to the value in the message, then run the same command again. Only a new cluster can have another one.',
  ),
  'charts-timeout': retryable.system.chartTimeout(
    'The resources of a chart did not become ready in time; the error lists the pods that are not ready.',
    'Fix the pods that the error lists, or raise `timeoutSeconds` of the chart, then run the same command again.',
  ),
  'charts-failed': retryable.system.partial(
    'helm failed to install a chart; the error contains the last output of helm.',
    'Fix the problem that helm reports, then run the same command again.',
  ),
});

/** An error about Helm charts, with a code of the catalog. */
export class ChartError extends errorClass(chartErrors) {}
