/** The composition root of the agent: values, their one writer each, workers, and the order of life. */
export { runAgent, type AgentOptions, type AgentPorts } from './agent.ts';
