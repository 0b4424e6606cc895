"""Mutants of training: loop, feed, augmentation, optimisers, weights, inputs, embed, mine."""

from tests.mutants.mutant import mutants

WIRES = "tests/training/test_loop_wires.py"
PROTOCOLS = "tests/training/test_protocols.py"

LOOP = mutants(
    "training/loop.py",
    WIRES,
    after_step_never=("            self.method.after_step()", "            pass"),
    before_step_never=("        self.method.before_step(self.context)", "        pass"),
    after_epoch_never=("        self.method.after_epoch(self.context)", "        pass"),
    before_epoch_after_resume=("        if self.first_step == 0:", "        if True:"),
    head_rate_ignored=('rate * group.get("scale", 1.0)', "rate"),
    schedule_frozen_in_an_epoch=("position = epoch * self.order.steps + step", "position = epoch * self.order.steps"),
    steps_count_anew_each_epoch=("position = epoch * self.order.steps + step", "position = step"),
    finished_ignored=("if self._failed(row) or self.method.finished:", "if self._failed(row):"),
    eval_mode_stays=("        self.method.train()\n", "        pass\n"),
    step_not_seeded=('self._reseed("step", epoch, step)  # dropout', "pass  # dropout"),
    before_epoch_not_seeded=('self._reseed("before_epoch", epoch)', "pass"),
    after_epoch_not_seeded=('self._reseed("after_epoch", epoch)', "pass"),
    weights_of_terms_ignored=("sum(weights[name] * value for name", "sum(value for name"),
    zero_weight_still_decays=(
        "for name, value in terms.items() if weights[name] != 0)",
        "for name, value in terms.items())",
    ),
    gradients_pile_up=("self.optimiser.zero_grad(set_to_none=True)", "pass"),
    empty_step_not_skipped=("if self.method.may_be_empty and self.method.empty():", "if False:"),
    batch_norm_not_restored=("buffer.copy_(before)", "pass"),
    other_world_size_accepted=('if len(saved["sums"]) != self.world:', "if False:"),
    views_not_counted=("if len(batch.views) != (wanted", "if not (wanted"),
    views_of_partners_not_counted=("if len(batch.partners) != (wanted", "if False and (wanted"),
    optimiser_not_resumed=('optimiser.load_state_dict(saved["optimiser"])', "pass"),
    taught_not_resumed=('self.taught = saved["taught"]', "self.taught = False"),
    step_not_resumed=('saved["epoch"], saved["step"], saved["spent"]', 'saved["epoch"], 0, saved["spent"]'),
    total_for_rate_of_step=("(epoch + 1) * self.order.steps - 1)", "(epoch + 1) * self.order.steps)"),
)
LOOP += mutants(
    "training/loop.py",
    f"{WIRES} tests/training/test_resume.py::test_every_optimiser_schedule_and_split_batch_norm_resumes_exactly",
    sums_not_resumed=("self.sums = dict(zip(", "self.sums = {} and dict(zip("),
)
LOOP += mutants(
    "training/loop.py",
    "tests/methods/reference/test_loop.py",
    labels_of_other_rows=("self.data.images.labels[batch.index]", "self.data.images.labels[batch.index - 1]"),
)
FEED = mutants(
    "training/feed.py",
    "tests/training/test_feed.py tests/training/test_files.py",
    same_order_every_epoch=('derive(self.seed, "order", epoch)', 'derive(self.seed, "order")'),
    same_views_every_epoch=(
        'derive(self.seed, "augment", epoch, step, *share)',
        'derive(self.seed, "augment", step, *share)',
    ),
    same_views_every_step=(
        'derive(self.seed, "augment", epoch, step, *share)',
        'derive(self.seed, "augment", epoch, *share)',
    ),
    same_crop_every_epoch=('derive(self.seed, "crop", self.epoch, row)', 'derive(self.seed, "crop", row)'),
    same_partners_every_epoch=('"partners", epoch, step, *share)', '"partners", step, *share)'),
    same_views_of_every_process=(
        "        share = () if self.world == 1 else (self.rank,)\n        return derive",
        "        share = ()\n        return derive",
    ),
    first_step_ignored=("range(first_step, self.steps)", "range(self.steps)"),
    every_process_takes_the_first_share=("batch.chunk(self.world)[self.rank]", "batch.chunk(self.world)[0]"),
    partners_are_the_anchors=("images = self.pixels[partners.to(self.pixels.device)]", "images = self.pixels[index]"),
    partners_of_files_are_the_anchors=("torch.cat([index, near])", "torch.cat([index, index])"),
    partners_are_the_first=("torch.randint(self.neighbours.shape[1], (len(index),), generator=generator)", "0"),
    clean_is_augmented=("batch.clean = augment.normalise(images)", "batch.clean = batch.views[0]"),
    clean_of_files_is_a_crop=(
        "batch.clean = augment.normalise(anchors[-1])",
        "batch.clean = augment.normalise(anchors[0])",
    ),
    files_without_crop_give_one_view=(".expand(max(1, self.views) + self.clean", ".expand(1 + self.clean"),
    short_batch_kept=("used = rows - rows % batch_size if drop_last else rows", "used = rows"),
    generator_not_seeded=(
        "            generator.manual_seed(order.augment_seed(epoch, step))\n            partners",
        "            partners",
    ),
)
AUGMENTATION = mutants(
    "training/augmentation.py",
    "tests/training/test_feed.py tests/training/test_augmentation.py tests/training/test_files.py",
    both_views_one_tensor=(
        "return self.views_of([images] * count, generator)",
        "return self.views_of([images], generator) * count",
    ),
    second_view_is_the_first=(
        "(self.each[number] if self.each else self)(view, generator)",
        "(self.each[0] if self.each else self)(view, generator)",
    ),
    pair_crops_twice=("[each.without_crop()[1] for each in self.each]", "self.each"),
    crop_stays_with_files=(
        "rest.before = [pair for pair in self.before if pair[0]",
        "rest.before = [pair for pair in self.before if pair[1]",
    ),
    probability_reversed=(
        'generator=generator) < settings["probability"])',
        'generator=generator) > settings["probability"])',
    ),
    ranges_shifted=("* (high - low) + low", "* (high - low)"),
    crop_always_at_the_corner=("top = (where[:, 0] * (height - h + 1)).floor()", "top = (where[:, 0] * 0).floor()"),
    deviation_ignored=("torch.addcmul(-mean / std, x, 1 / std)", "x - mean"),
)
OPTIMISERS = mutants(
    "training/optimisers.py",
    f"tests/training/test_optimisers.py {WIRES}",
    schedule_frozen_per_step=(
        "position = step / steps_per_epoch if per_step else step // steps_per_epoch",
        "position = step // steps_per_epoch",
    ),
    frozen_weights_are_learned=(
        "[parameter for parameter in module.parameters() if parameter.requires_grad]",
        "list(module.parameters())",
    ),
    scale_of_the_head_one=('"scale": settings["head_lr"] / lr', '"scale": 1.0'),
    biases_decay=(
        "for flat, kept in ((False, decay), (True, 0.0))",
        "for flat, kept in ((False, decay), (True, decay))",
    ),
    warmup_skipped=("if position < warmup:", "if False:"),
    hold_ignored=("max(position - warmup - hold, 0)", "max(position - warmup, 0)"),
    nesterov_ignored=('nesterov=settings.get("nesterov", False)', "nesterov=False"),
)
WEIGHTS = mutants(
    "training/weights.py",
    "tests/training/test_weights.py tests/training/test_layouts.py tests/methods/test_networks.py",
    statistics_of_the_first_part=("value.view(-1, width).mean(0)", "value.view(-1, width)[0]"),
)
WEIGHTS += mutants(
    "training/layouts.py",
    "tests/training/test_weights.py tests/training/test_layouts.py",
    two_networks_accepted=("elif name in found:", "elif False:"),
    half_a_network_accepted=("    if missing:\n", "    if False:\n"),
    deeper_network_accepted=("    if more := [", "    if False and ["),
    lightlys_numbers_as_torchvisions=('4 if "7" in heads else 2', "4"),
    shortcuts_not_renamed=('{"shortcut": "downsample"}', "{}"),
)
WEIGHTS += mutants(
    "training/export.py",
    "tests/training/test_export.py",
    failed_run_exported=('if train["status"] not in EVALUABLE:', "if False:"),
    metrics_of_another_training=('if stored["records"]["train"]["fingerprint"] == training:', "if True:"),
    small_stem_forgotten=('for part in ("conv1", "maxpool")', 'for part in ("conv1",)'),
    batch_norm_stays_in_parts=('if key != "split_batch_norm"', "if True"),
    network_left_in_training=('"network.eval()"]', "]"),
    own_normalisation_ignored=("values = normalisation(recipe,", "values = normalisation({},"),
)
WEIGHTS += mutants(
    "training/train.py",
    f"tests/training/test_weights.py {PROTOCOLS} tests/training/test_train.py",
    inherited_never=("method.inherited()  # only now", "pass  # only now"),
    base_never_loaded=('inherit(method, inputs.base["method"], base_path)', "pass"),
    labels_in_the_order_of_the_data=(
        "data.labels[rows] if method.uses_labels",
        "data.labels[: len(rows)] if method.uses_labels",
    ),
    frozen_backbone_unchecked=(
        "if frozen not in (None, digest(method.backbone)):",
        "if False:",
        "a check of what never happens: KeyEncoder and Method.freeze_backbone keep it so",
    ),
)
STAGES = mutants(
    "training/inputs.py",
    f"tests/pipeline/test_stages.py {PROTOCOLS}",
    base_not_in_the_record=('inputs.fingerprints["base"] = base["fingerprint"]', "pass"),
    neighbours_not_in_the_record=('inputs.neighbours, inputs.fingerprints["neighbours"] =', "inputs.neighbours, _ ="),
    watched_not_in_the_record=('near, inputs.fingerprints["watched"] =', "near, _ ="),
    data_not_in_the_record=('{"data": data.card["record"]["fingerprint"]})', "{})"),
    every_labelled_row_trains=('rows = data.rows(splits["train"])', 'rows = data.rows(["all"])'),
)
STAGES += mutants(
    "training/embed.py",
    "tests/pipeline/test_stages.py",
    embeds_in_training_mode=("method.to(device).eval()", "method.to(device).train()"),
)
STAGES += mutants(
    "training/mine.py",
    "tests/methods/test_scan.py",
    not_its_own_neighbour=("similarity[torch.arange(len(rows)), rows] = torch.inf", "pass"),
    neighbours_by_length=("z = F.normalize(z.float(), dim=1)", "z = z.float()"),
    neighbours_of_other_rows=("if not np.array_equal(known, rows):", "if False:"),
)
STAGES += mutants(
    "training/seeds.py",
    "tests/training/test_feed.py",
    seed_ignored=("[str(seed), *map(str, path)]", "[*map(str, path)]"),
)
STAGES += mutants(
    "training/checkpoint.py",
    "tests/training/test_resume.py::test_two_unreadable_generations_start_anew",
    one_generation=("for path in (self.newest, self.previous):", "for path in (self.newest,):"),
)

MUTANTS = [*LOOP, *FEED, *AUGMENTATION, *OPTIMISERS, *WEIGHTS, *STAGES]
