"""Mutants of methods and of the blocks they are built from."""

from tests.mutants.mutant import mutants

REFERENCE = "tests/methods/reference"


def of(name: str, tests: str = "", **changes: tuple[str, ...]):
    """Mutants of methods/{name}.py under its own test, others, and the references."""
    return mutants(f"methods/{name}.py", f"tests/methods/test_{name}.py {tests} {REFERENCE}", **changes)


def block(name: str, tests: str, **changes: tuple[str, ...]):
    return mutants(f"methods/blocks/{name}.py", f"{tests} {REFERENCE}", **changes)


BASELINES = "tests/methods/test_baselines.py"
WEIGH_IN = 'losses = {"contrast": info_nce(z_q, z_k, self.keys.negatives, tau)}'
METHODS = [
    *of(
        "moco",
        moco_keys_not_normalised=("F.normalize(self.keys(x).float(), dim=1)", "self.keys(x).float()"),
        moco_queue_gets_queries=("self.keys.hold(k)", "self.keys.hold(q.detach())"),
        moco_never_inherits=("self.keys.start_as(self.backbone, self.head)", "pass"),
    ),
    *of(
        "byol",
        BASELINES,
        byol_constant_momentum=("self.head, float(self.momentum))", "self.head)"),
        byol_same_pair_twice=("self._loss_of_pair(second, first))", "self._loss_of_pair(first, second))"),
        byol_no_predictor=(
            "p = self.predictor(self.head(self.backbone(online)))",
            "p = self.head(self.backbone(online))",
        ),
    ),
    *of(
        "instdisc",
        instdisc_forgets=("        self.bank.after_step()", "        pass"),
        instdisc_remembers_other_rows=("self.bank.hold(batch.index, z)", "self.bank.hold(batch.index.flip(0), z)"),
        instdisc_always_all_rows=("self.bank.draw(len(z), self.settings.negatives)", "None"),
    ),
    *block(
        "memory_bank",
        "tests/methods/test_memory_bank.py tests/methods/test_instdisc.py tests/training/test_distributed.py",
        bank_momentum_crossed=(
            "self.momentum * before + (1 - self.momentum) * z",
            "self.momentum * z + (1 - self.momentum) * before",
        ),
        bank_rows_not_unit=("return F.normalize(torch.where", "return (lambda x, dim: x)(torch.where"),
        bank_of_own_rows_alone=("(gather_constant(part) for part in self.held)", "(part for part in self.held)"),
        bank_first_of_twins=("arange(len(index), device=index.device)", "arange(len(index), 0, -1) - 1"),
        bank_draws_alike_everywhere=("own_share(drawn)", "drawn[:images]"),
        bank_learns=("vectors = vectors.detach().to(z)", "vectors = vectors.to(z)"),
        bank_own_row_last=(
            "torch.cat([index.unsqueeze(1), others], dim=1)",
            "torch.cat([others, index.unsqueeze(1)], 1)",
        ),
        bank_noise_of_one_row=("noise = (values.shape[1] - 1) / rows", "noise = 1 / rows"),
        bank_normaliser_of_the_last_batch=("torch.where(self.normaliser > 0, moved, now)", "now"),
        bank_normaliser_for_good=("moved = self.constant * self.normaliser", "moved = self.normaliser"),
        bank_normaliser_without_rows=("now = rows * gather_constant(", "now = gather_constant("),
    ),
    *of(
        "localagg",
        localagg_shares_every_cluster=(".any(0)", ".all(0)"),
        localagg_clusters_of_other_rows=("assigned[:, index].unsqueeze(2)", "assigned[:, rows[:, 0]].unsqueeze(2)"),
        localagg_never_clusters=("self.ready.fill_(True)", "self.ready.fill_(False)"),
        localagg_one_start=('context.seed("clusters", number)', 'context.seed("clusters", 0)'),
        localagg_background_is_everything=(".topk(count, dim=1)", ".topk(len(vectors), dim=1)"),
        localagg_largest_kept=("(similarities - largest) / temperature", "similarities / temperature"),
        localagg_forgets=("        self.bank.after_step()", "        pass"),
        localagg_warm_up_of_none=("if context.epoch < self.settings.warmup_epochs:", "if False:"),
        localagg_share_of_all_epochs=("        self.close.zero_()", "        pass"),
    ),
    *of(
        "jule",
        "tests/training/test_distributed.py",
        jule_merges_too_few=("self.count() * (1 - self.settings.merged)", "self.count() * self.settings.merged * 1.2"),
        jule_never_ends=("if last or self.count() <= self.data.classes:", "if last:"),
        jule_keeps_its_labels=(
            "shared_agglomeration(z, None, self.data.classes",
            "shared_agglomeration(z, self.clusters, 9",
        ),
        jule_positives_of_others=("same[anchors], 2.0", "~same[anchors], 2.0"),
        jule_gamma_on_the_negatives=("(gamma * near - squared[anchors", "(near - gamma * squared[anchors"),
        jule_gradient_always_released=("z.detach() if self.settings.released_gradient else z", "z.detach()"),
        jule_own_rows_alone=("z = gather(self.embed(batch.views[0]))", "z = self.embed(batch.views[0])"),
        jule_chance_of_all_steps=("self.settings.margin * float(self.taught)", "self.settings.margin"),
    ),
    *block(
        "sobel",
        "tests/methods/test_sobel.py",
        sobel_filters_swapped=("torch.tensor([DX, DY])", "torch.tensor([DY, DX])"),
        sobel_weights_alike=("WEIGHTS[grey] if channels == 3", "WEIGHTS['mean'] if channels == 3"),
        sobel_in_half_precision=("@full_precision\n", ""),
        sobel_border_copied=(
            "F.conv2d(x, filters.to(x.dtype), padding=1)",
            "F.conv2d(F.pad(x, (1,) * 4, 'replicate'), filters.to(x.dtype))",
        ),
        sobel_skipped=("self.network(self.edges(x))", "self.network(x[:, :2])"),
    ),
    *block(
        "networks",
        "tests/methods/test_sobel.py",
        sobel_not_asked_for=("edges = Sobel(shape, grey) if grey else None", "edges = None"),
        sobel_one_kind=("Sobel(shape, grey)", "Sobel(shape, 'mean')"),
    ),
    *block(
        "agglomeration",
        "tests/methods/test_agglomeration.py",
        agglomeration_of_own_size=("self.directed / self.sizes**2", "self.directed / self.sizes[:, None] ** 2"),
        agglomeration_out_twice=("((w.T @ members) * (w @ members))", "((w @ members) * (w @ members))"),
        agglomeration_column_forgotten=("self.directed[:, one] += self.directed[:, other]", "pass"),
        agglomeration_row_forgotten=("self.directed[one] += self.directed[other]", "pass"),
        agglomeration_stale_scores=("self._score(np.flatnonzero(near & alive))", "self._score(np.array([one]))"),
        agglomeration_plain_always=("if self.plain or count < 2:", "if True:"),
        agglomeration_absorbs_all=("else into & out", "else into | True"),
        agglomeration_both_is_either=("else into & out", "else into | out"),
        agglomeration_neighbour_is_itself=("d[torch.arange(len(part)), part] = torch.inf", "pass"),
    ),
    *of(
        "selflabel",
        "tests/methods/test_scan.py tests/methods/test_self_label.py",
        self_label_average_unused=("network = self if self.average is None else self.average", "network = self"),
        self_label_average_reversed=("settings.ema, copy_buffers=True", "1 - settings.ema, copy_buffers=True"),
        self_labels_from_the_strong_view=(
            "self.logits(self.backbone(batch.clean))",
            "self.logits(self.backbone(batch.views[0]))",
        ),
    ),
    *of(
        "cdc",
        cdc_tau_is_t=(
            "self.joined(*key), self.settings.temperature",
            "self.joined(*key), self.settings.cluster_temperature",
        ),
        cdc_t_is_tau=(
            "self.targets(source), self.settings.cluster_temperature)",
            "self.targets(source), self.settings.temperature)",
        ),
        cdc_contrast_spares_the_clusters=("z = torch.cat([zc, zn], dim=1)", "z = torch.cat([zc.detach(), zn], dim=1)"),
        cdc_contrast_detached=(WEIGH_IN, WEIGH_IN.replace("z_q,", "z_q.detach(),")),
        cdc_targets_of_the_other_view=(
            'zc if self.settings.target_view == "same" else key[0]',
            'zc if self.settings.target_view != "same" else key[0]',
        ),
    ),
    *of(
        "simsiam", BASELINES, stop_gradient_one_sided=("z1, z2 = z1.detach(), z2.detach()", "z1, z2 = z1.detach(), z2")
    ),
    *of(
        "mixem",
        mixem_second_view_detached=(
            "nt_xent(views[0][2], views[1][2], self",
            "nt_xent(views[0][2], views[1][2].detach(), self",
        ),
        mixem_entropy_rises=("return torch.xlogy(mean, mean).sum()", "return -torch.xlogy(mean, mean).sum()"),
        mixem_least_component=("inst_ent = 1 - p.max(1).values", "inst_ent = 1 - p.min(1).values"),
        mixem_push_pulls=("return -apart.sum() / count, pull", "return apart.sum() / count, pull"),
        mixem_one_view_shapes=("name: shapes[0][name] + shapes[1][name]", "name: shapes[0][name] + shapes[0][name]"),
    ),
    *of(
        "pcl",
        pcl_clusters_the_query_encoder=("[self.key(context.clean(part))", "[self.query(context.clean(part))"),
        pcl_phi_of_unit_centres=(
            "(features - centres[assigned])",
            "(features - F.normalize(centres, dim=1)[assigned])",
        ),
        pcl_keys_not_normalised=("F.normalize(self.keys(x).float(), dim=1)", "self.keys(x).float()"),
        pcl_prototypes_before_the_first=("self.ready.fill_(True)", "pass"),
        pcl_phi_ignored=("q @ prototypes.T / phi, target", "q @ prototypes.T, target"),
    ),
    *of(
        "uniclr",
        uniclr_symmetry_times_one_over_tau=(
            'asymmetry(scaled if settings.follow == "code" else a)',
            "asymmetry(scaled)",
        ),
        uniclr_view_meets_its_own_key=(
            "((first, keys[1]), (second, keys[0]))",
            "((first, keys[0]), (second, keys[1]))",
        ),
        uniclr_no_ridge=("sigma + ridge * torch.eye", "sigma + 0 * torch.eye"),
    ),
    *of(
        "scan",
        scan_partners_are_anchors=("(batch.views[0], *batch.partners)", "(batch.views[0], batch.views[0])"),
        scan_entropy_of_partners_ignored=('"entropy": -spread.sum()', '"entropy": spread.sum()'),
        scan_worst_head=(
            "self.head.best.copy_(self.losses_of_heads.argmin())",
            "self.head.best.copy_(self.losses_of_heads.argmax())",
        ),
        scan_watches_the_last_epoch=("if losses.min() < self.watched_loss:", "if True:"),
    ),
    *of(
        "dcrl",
        dcrl_structure_step_ascends=("parameter.grad = gradient", "parameter.grad = -gradient"),
        dcrl_rank_without_scale=("_distances(centres) - scale * _distances", "_distances(centres) - _distances"),
        dcrl_target_not_sharpened=("self.target.copy_(target_distribution(q))", "self.target.copy_(q)"),
        dcrl_isometry_at_once=("b = min(1.0, (epoch - start) / ramp) if gradual else 1.0", "b = 1.0"),
        dcrl_whole_data_step_at_fresh_latents=('elif self.settings.isometry_gradient == "vjp":', "elif False:"),
    ),
    *of(
        "dec",
        dec_target_never_refreshed=("if context.step % self.settings.interval:", "if context.step:"),
        dec_mean_over_clusters=("- torch.xlogy(p, q)).sum(1).mean()", "- torch.xlogy(p, q)).mean()"),
        dec_centres_stay=("self.centres.copy_(fitted.centres)", "pass"),
    ),
    *of(
        "swav",
        swav_queue_of_the_wrong_view=("self.queue[view, :", "self.queue[1 - view, :"),
        swav_predicts_itself=("codes[a], scores[1 - a], tau", "codes[a], scores[a], tau"),
        swav_prototypes_never_frozen=("if self.epoch < self.settings.frozen_epochs:", "if False:"),
        swav_queue_from_the_start=("if self.filled and self.epoch >= self.settings.queue_epoch:", "if self.filled:"),
    ),
    *of("co2", BASELINES, co2_consistent_with_itself=("log_p = (k.detach() @", "log_p = (q.detach() @")),
    *of(
        "deepcluster_v2",
        deepcluster_bank_of_the_second_view=("gather_constant(z[0].detach())", "gather_constant(z[1].detach())"),
    ),
    *of(
        "barlow_twins", BASELINES, barlow_lambda_ignored=("BarlowTwinsLoss(settings.off_diagonal)", "BarlowTwinsLoss()")
    ),
]
BLOCKS = [
    *block(
        "key_encoder",
        "tests/methods/test_key_encoder.py tests/methods/test_moco.py",
        head_of_the_keys_stands_still=(
            "((self.backbone, backbone), (self.head, head)):",
            "((self.backbone, backbone),):",
        ),
        queue_never_written=("self.queue.write(self.held)", "pass"),
        keys_stay_shuffled=("return self.head(self.backbone(x))[back]", "return self.head(self.backbone(x))"),
    ),
    *block(
        "momentum",
        "tests/methods/test_key_encoder.py tests/methods/test_moco.py",
        momentum_and_its_rest_exchanged=("theta_k.lerp_(theta_q, 1 - momentum)", "theta_k.lerp_(theta_q, momentum)"),
        queue_overwrites_the_newest=("self.place.copy_((self.place + len(keys)) % len(self.keys))", "pass"),
    ),
    *block(
        "contrast",
        "tests/methods/test_contrast.py",
        itself_is_a_negative=("similarity = similarity.scatter(1, itself.unsqueeze(1), -torch.inf)", "pass"),
        temperature_multiplies=("torch.cat([all1, all2]).T / temperature", "torch.cat([all1, all2]).T * temperature"),
        gradient_reaches_keys=("positive = (q * k.detach())", "positive = (q * k)"),
    ),
    *block(
        "batch_norm",
        "tests/methods/test_networks.py tests/methods/test_key_encoder.py",
        evaluates_with_the_first_part=("v.view(self.splits, channels).mean(0)", "v.view(self.splits, channels)[0]"),
        shuffle_not_undone=("return x[order], order.argsort()", "return x[order], order"),
    ),
    *block(
        "sinkhorn",
        "tests/methods/test_sinkhorn.py",
        clusters_not_balanced=("q = q / q.sum(0, keepdim=True)", "pass"),
        epsilon_ignored=("logits = scores / epsilon", "logits = scores"),
    ),
    *block("student_t", "tests/methods/test_dec.py", clusters_sizes_ignored=("q.square() / q.sum(0)", "q.square()")),
    *block(
        "self_label",
        "tests/methods/test_self_label.py tests/methods/test_scan.py",
        every_image_is_sure=("confidence > self.threshold", "confidence > 0"),
        classes_not_balanced=("if balance else sure.float()", "if False else sure.float()"),
        empty_steps_not_seen=("self.empty = labelled.sum() == 0", "self.empty = labelled.sum() < 0"),
    ),
]

MUTANTS = [*METHODS, *BLOCKS]
