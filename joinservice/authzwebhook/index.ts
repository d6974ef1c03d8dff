/**
 * The authorization webhook of the API server. It checks whether the node of a kubelet is still a member, and whether
 * an owner or operator is still on record and signed. Removed nodes and persons are denied at once, not only when
 * their certificates expire.
 *
 * ```
 * kubelet ─cert: CN system:node:NAME, uid NODE-ID─▶ API server ─SubjectAccessReview─▶ 127.0.0.1:9092 ─▶ record of the UID
 * kubectl ─cert: CN NAME, uid FINGERPRINT─────────────▶  │ denied: 403, now            (linearizable, a second old at most)
 *                                                        └ no opinion: Node, RBAC
 * ```
 * The API server does not ask about people who are in the list that the webhook serves to the agent of this node (`/recorded-persons`): the agent
 * writes the list into the configuration of the API server every few seconds, and an empty one when it gets none.
 *
 * Any process of the machine, and a pod in its network, can connect. The webhook answers only the client certificate of
 * the API server. When too many connections have not shown a certificate, it closes the oldest of them.
 *
 * The webhook never allows a request: what a kubelet or an operator may do is decided by the authorizers of Kubernetes. While etcd is unavailable
 * it answers with an error, after which the API server retries and then denies; only owners can act then, to repair the cluster.
 */
export { createMembershipLookup, listRecordedPersons } from './membership-lookup.ts';
export { serveAuthorization } from './serve-authorization.ts';
