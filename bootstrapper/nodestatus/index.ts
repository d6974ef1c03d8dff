/** What this node reports about itself: the status that it sends to curators, the expiry of its certificates, and its metrics. */
export { agentMetrics } from './agent-metrics.ts';
export { createCertificateExpiryLister } from './certificate-expiry.ts';
export { GrowthRecorder } from './growth-recorder.ts';
export { KubernetesEtcdHealth } from './kubernetes-etcd-health.ts';
export { type StatusFacts, statusPushWorker } from './status-push-worker.ts';
